#include "app/compare_store.h"

#include "text/files.h"

namespace tributary::app {

Result<CompareStore> CompareStore::open(const std::filesystem::path& folder) {
  if (const auto made = text::make_folder(folder); !made) return made.error();
  CompareStore store;
  store.path_ = folder / "cells.txt";
  bool whole = true;
  if (std::error_code error; std::filesystem::exists(store.path_, error)) {
    const auto content = text::read_file(store.path_, kMostStoreBytes);
    if (!content) return content.error();
    std::size_t number = 0;
    for (std::size_t at = 0; at < content->size();) {
      const auto end = std::min(content->find('\n', at), content->size());
      ++number;
      auto line = sim::parse_line(std::string_view(*content).substr(at, end - at));
      if (line) {
        store.cells_[line->key] = line->result;
      } else {
        store.warnings_.push_back(store.path_.string() + ":" + std::to_string(number) + ": skipped, " +
                                  line.error().message + "; that cell is computed again");
      }
      at = end + 1;
    }
    whole = content->empty() || content->back() == '\n';
  }
  store.file_.open(store.path_, std::ios::app | std::ios::binary);
  if (!whole) store.file_ << '\n';  // the last line was cut short
  store.file_.flush();
  if (!store.file_) return Error{"cannot write " + store.path_.string() + ": is the folder yours, is there room?"};
  return store;
}

const sim::CompareResult* CompareStore::find(const std::string& key) const {
  const auto found = cells_.find(key);
  return found == cells_.end() ? nullptr : &found->second;
}

Result<void> CompareStore::add(const sim::CompareLine& line) {
  file_ << sim::to_line(line) << '\n';
  file_.flush();
  if (!file_) return Error{"cannot write " + path_.string() + ": is there room on the disk?"};
  return {};
}

}  // namespace tributary::app
