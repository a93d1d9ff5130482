#include "backends/pjrt/pjrt_backend.h"

#include <charconv>
#include <mutex>

#include "backends/kept_buffer.h"
#include "backends/pjrt/executable.h"
#include "base/strings.h"
#include "ir/composites/composites.h"
#include "ir/passes/inline_composites.h"
#include "ir/passes/loops_as_while.h"

namespace transmuter {
namespace {

struct Wanted {
  std::string plugin;
  pjrt::ClientOptions client;
  std::string placement = "cpu";
  std::string cache = pjrt::DiskCache::default_folder();
  pjrt::Sizes sizes = pjrt::Sizes::automatic;
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_input, what + "; a PJRT backend is named pjrt[:PLUGIN][,OPTION=VALUE ...]");
}

Wanted parse(const std::string& name) {
  Wanted wanted;
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size());
    pieces.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (pieces[0].size() > 5) wanted.plugin = pieces[0].substr(5);
  for (size_t i = 1; i < pieces.size(); ++i) {
    const size_t at = pieces[i].find('=');
    if (at == std::string::npos || at == 0) refuse(str("\"", pieces[i], "\" is no OPTION=VALUE"));
    const std::string key = pieces[i].substr(0, at), value = pieces[i].substr(at + 1);
    if (key == "device") {
      const char* end = value.data() + value.size();
      const auto [stopped, error] = std::from_chars(value.data(), end, wanted.client.device);
      if (error != std::errc() || stopped != end) refuse(str("device=", value, " is no number of a device"));
    } else if (key == "placement") {
      if (value != "cpu" && value != "reference") refuse(str("placement=", value, " is neither cpu nor reference"));
      wanted.placement = value;
    } else if (key == "sizes") {
      if (value != "exact" && value != "padded") refuse(str("sizes=", value, " is neither exact nor padded"));
      wanted.sizes = value == "exact" ? pjrt::Sizes::exact : pjrt::Sizes::padded;
    } else if (key == "cache") {
      wanted.cache = value;
    } else {
      wanted.client.plugin[key] = value;
    }
  }
  if (wanted.plugin.empty()) {
    const std::vector<std::string> found = pjrt::find_plugins();
    if (found.empty())
      throw Error(ErrorCode::not_found,
                  "there is no PJRT plugin here: install one (pip install jax-cuda13-pjrt, ...), name it in "
                  "TRANSMUTER_PJRT_PLUGIN, or say pjrt:PATH");
    wanted.plugin = found[0];
  }
  return wanted;
}

class PjrtBackend : public Backend {
 public:
  PjrtBackend(std::string name, const Wanted& wanted)
      : name_(std::move(name)),
        client_(pjrt::Client::create(pjrt::Plugin::open(wanted.plugin), wanted.client)),
        cache_(std::make_shared<pjrt::DiskCache>(wanted.cache)),
        host_(Backend::get(wanted.placement)),
        sizes_(wanted.sizes) {}

  std::string name() const override { return name_; }
  Capabilities capabilities() const override { return {.data_dependent_extents = true}; }
  // Those that the host part runs, and what the plugin has; what is left of the former for the device is written out
  // before it is compiled.
  bool takes_composite(const ir::Program& program, const ir::Op& op) const override {
    return (pjrt::needs_host(program, op) && host_->takes_composite(program, op)) ||
           (pjrt::is_whole_erf(program, op) && knows_erf());
  }
  Buffer upload(const Tensor& tensor) const override {
    const Buffer* kept = kept_by(this, tensor);
    return kept ? *kept : Buffer{.host = tensor};
  }
  Tensor download(const Buffer& buffer) const override {
    return buffer.device ? pjrt::on_device(buffer)->download() : buffer.host;
  }
  std::unique_ptr<Executable> compile(const ir::Program& program, const BackendOptions& options) const override {
    const pjrt::Placed placed = pjrt::place(ir::loops_as_while(program));
    std::unique_ptr<pjrt::DeviceProgram> device;
    std::unique_ptr<Executable> host;
    if (placed.device)
      device = std::make_unique<pjrt::DeviceProgram>(*placed.device, client_, cache_, sizes_, knows_erf(), options);
    if (placed.host) {
      const auto takes = [this](const ir::Program& p, const ir::Op& op) { return host_->takes_composite(p, op); };
      host = host_->compile(ir::inline_composites(*placed.host, takes), options);
    }
    return std::make_unique<pjrt::PlacedExecutable>(shared_from_this(), std::move(device), std::move(host), host_,
                                                    placed);
  }
  MemoryFigures memory() const override { return client_->memory(); }

 private:
  // Asked once of each plugin: the answer lies with its compiled programs.
  bool knows_erf() const {
    std::call_once(asked_, [&] {
      const std::string key = client_->identity() + "\nchlo.erf";
      if (cache_->find(key) == "yes") {
        knows_erf_ = true;
        return;
      }
      try {
        client_->compile(
            "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
            "  %y = \"chlo.erf\"(%x) : (tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}\n");
        knows_erf_ = true;
        cache_->store(key, "yes");  // only that: a device whose memory is full refuses, too
      } catch (const Error&) {      // written out, then
        knows_erf_ = false;
      }
    });
    return knows_erf_;
  }

  std::string name_;
  std::shared_ptr<const pjrt::Client> client_;
  std::shared_ptr<const pjrt::DiskCache> cache_;
  std::shared_ptr<Backend> host_;
  pjrt::Sizes sizes_;
  mutable std::once_flag asked_;
  mutable bool knows_erf_ = false;
};

}  // namespace

std::shared_ptr<Backend> make_pjrt_backend(const std::string& name) {
  return std::make_shared<PjrtBackend>(name, parse(name));
}

}  // namespace transmuter
