// Everything: #include <transmuter/transmuter.h>, namespace tm = transmuter.
#pragma once

#include "transmuter/audio.h"
#include "transmuter/backend.h"
#include "transmuter/decoder.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"
#include "transmuter/graph.h"
#include "transmuter/hub.h"
#include "transmuter/image.h"
#include "transmuter/io.h"
#include "transmuter/model.h"
#include "transmuter/telemetry.h"
#include "transmuter/tensor.h"
#include "transmuter/text.h"
#include "transmuter/text_generator.h"
#include "transmuter/value.h"
#include "transmuter/value_spec.h"
