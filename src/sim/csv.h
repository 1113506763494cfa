// Small tables in text: fields between commas, one row a line; empty lines, lines that begin with #, and a first line
// without a number (a heading) are passed over.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::sim {

struct CsvRow {
  std::size_t line = 0;
  std::vector<std::string> fields;  // without blanks around them
};
inline constexpr std::size_t kMostCsvRows = 1'000'000;
inline constexpr std::size_t kMostCsvFields = 2048;  // of a row

// Errors: too many rows or fields.
Result<std::vector<CsvRow>> parse_csv(std::string_view text);
// The whole field as a finite number from `least` to `most`. Errors name the line.
Result<double> csv_number(const CsvRow& row, std::size_t field, double least, double most);

}  // namespace tributary::sim
