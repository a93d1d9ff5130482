// Compiled programs on disk: damage, other versions, and several processes at once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "backends/pjrt/disk_cache.h"

namespace transmuter::pjrt {
namespace {

namespace fs = std::filesystem;

std::string fresh_folder(const std::string& name) {
  const std::string folder = testing::TempDir() + "/" + name;
  fs::remove_all(folder);
  return folder;
}

TEST(PjrtDiskCache, FindsWhatItStoredAndNothingElse) {
  const std::string folder = fresh_folder("pjrt_cache");
  const DiskCache cache(folder, 1000);
  EXPECT_FALSE(cache.find("a"));
  cache.store("a", "program a");
  cache.store("b", "program b");
  EXPECT_EQ(cache.find("a"), "program a");
  EXPECT_EQ(cache.find("b"), "program b");
  EXPECT_FALSE(cache.find("c"));
  // A damaged file is none.
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file << "!";
  }
  EXPECT_FALSE(cache.find("a"));
  for (const auto& entry : fs::directory_iterator(folder)) fs::resize_file(entry.path(), 10);
  EXPECT_FALSE(cache.find("b"));
  // Room for one of these.
  cache.store("large 1", std::string(600, 'x'));
  cache.store("large 2", std::string(600, 'x'));
  EXPECT_EQ(cache.find("large 1").has_value() + cache.find("large 2").has_value(), 1);
  EXPECT_FALSE(DiskCache("off").enabled());
}

// Every length that a file may be cut to, and every byte of its head changed, as another version's is.
TEST(PjrtDiskCache, APartOfAFileIsNone) {
  const std::string folder = fresh_folder("pjrt_cut");
  const DiskCache cache(folder);
  cache.store("key", "program");
  const fs::path path = fs::directory_iterator(folder)->path();
  const uint64_t size = fs::file_size(path);
  for (uint64_t left = 0; left < size; ++left) {
    cache.store("key", "program");
    ASSERT_EQ(cache.find("key"), "program");
    fs::resize_file(path, left);
    EXPECT_FALSE(cache.find("key")) << left;
  }
  for (uint64_t at = 0; at < size; ++at) {
    cache.store("key", "program");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(was ^ 0x80));
    file.close();
    EXPECT_FALSE(cache.find("key")) << at;
  }
}

TEST(PjrtDiskCache, WhatAProcessLeftUnfinishedGoes) {
  const std::string folder = fresh_folder("pjrt_left");
  fs::create_directories(folder);
  const fs::path old = folder + "/0123.pjrt.77.0.part", now = folder + "/0123.pjrt.78.0.part";
  for (const fs::path& path : {old, now}) std::ofstream(path) << "half of a prog";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const DiskCache cache(folder);
  cache.store("key", "program");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(now));  // somebody may be writing it
  EXPECT_EQ(cache.find("key"), "program");
}

// Processes store the same keys, and throw out what is too much, while this one reads: whole programs or none.
TEST(PjrtDiskCache, ProcessesShareAFolder) {
  const std::string folder = fresh_folder("pjrt_shared");
  const auto key = [](int i) { return "key " + std::to_string(i % 5); };
  const auto program = [](int i, char letter) { return std::string(static_cast<size_t>(1000 + i % 5 * 5000), letter); };
  std::vector<pid_t> writers;
  for (const char letter : {'a', 'b'}) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      const DiskCache cache(folder, 40000);
      for (int i = 0; i < 300; ++i) cache.store(key(i), program(i, letter));
      _exit(0);
    }
    writers.push_back(pid);
  }
  const DiskCache cache(folder, 40000);
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto stored = cache.find(key(i));
    if (!stored) continue;
    ++found;
    EXPECT_TRUE(*stored == program(i, 'a') || *stored == program(i, 'b')) << i;
  }
  for (const pid_t pid : writers) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < 5; ++i) found += cache.find(key(i)) ? 1 : 0;
  EXPECT_GT(found, 0);
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    EXPECT_EQ(entry.path().extension(), ".pjrt");
    bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 40000u);
}

}  // namespace
}  // namespace transmuter::pjrt
