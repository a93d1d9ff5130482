#!/usr/bin/env bash
# build.sh [PRESET [TARGET …]] : installs what is missing, configures and builds (default: release). JOBS=N limits the jobs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/bootstrap.sh
configure_and_build "${1:-release}" "${@:2}"
