// The Hugging Face hub: files of repositories, through the same cache as the official Python client, which therefore
// finds what was downloaded here, and the other way round.
//
// Rules are that client's: the cache is $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub; $HF_ENDPOINT
// is asked with the token of $HF_TOKEN or $HF_HOME/token; $HF_HUB_OFFLINE=1 forbids every request. A file is a blob
// named by its etag, and a link to it in the snapshot of its commit; blobs are complete or not there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "transmuter/error.h"

namespace transmuter {

struct HubProgress {
  std::string file;
  int64_t done = 0;
  int64_t total = -1;  // bytes; -1: not known
};

struct HubOptions {
  std::string revision = "main";  // a branch, a tag, or a commit
  std::string cache;              // "" = as the environment says; so too for the next two
  std::string endpoint;
  std::string token;
  bool offline = false;  // the cache alone; true too when $HF_HUB_OFFLINE says so
  bool force = false;    // download what is cached too
  // Called from the caller's thread as bytes arrive, and once a file is complete. False stops the download (Error
  // io); what arrived is kept, and the next call goes on from there.
  std::function<bool(const HubProgress&)> progress;
  int retries = 5;           // tries in a row that bring nothing new
  double first_delay_s = 1;  // before the second try; doubles, up to 8 s
};

// This build can talk to a hub; without (TRANSMUTER_HUB=OFF) it reads the cache only.
bool hub_available();

// The path of a repository's file in the cache, downloaded if it isn't there. With a commit as revision nothing is
// asked when the file is there; with a branch the hub is asked what it stands for, and the cache answers where the hub
// cannot be reached. Downloads resume, and are checked against the hub's SHA-256 or git hash before they get their
// name; several processes may ask for one file, one of them downloads it. Throws Error: not_found (repository, revision
// or file, or not in the cache while offline), invalid_input (a name that is none, a gated repository without access),
// io.
std::string hf(const std::string& repo, const std::string& file, const HubOptions& options);
std::string hf(const std::string& repo, const std::string& file, const std::string& revision = "main");

// The names of all files; offline those in the cache.
std::vector<std::string> hf_files(const std::string& repo, const HubOptions& options = {});

struct HubModel {
  std::string folder;  // the snapshot
  std::string graph;   // path of the ONNX file; the first by name where there are several (encoder, decoder)
  std::vector<std::string>
      files;  // in the repository: graphs, the files that hold their weights, configuration, tokenizer
};
// What a model needs, downloaded. `dtype` chooses among variants of the graph as repositories name them: fp32, fp16,
// q4, q4f16, int8, uint8, q8, bnb4; "" is the full precision or else the only one there is. Throws Error as hf() does,
// and invalid_input with the variants there are.
HubModel hf_model(const std::string& repo, const std::string& dtype = "", const HubOptions& options = {});
// Which of a repository's files hf_model() takes at first: graphs, then configuration and tokenizer.
std::vector<std::string> hf_choose(const std::vector<std::string>& files, const std::string& dtype = "");

// `text` itself, unless it is hf:REPO[@REVISION][/FILE]: then that file's path, or without FILE that of the model's
// graph.
std::string hf_path(const std::string& text, const HubOptions& options = {});
// The same for a folder: of hf:REPO[@REVISION] the snapshot, with what a model needs.
std::string hf_folder(const std::string& text, const HubOptions& options = {}, const std::string& dtype = "");

}  // namespace transmuter
