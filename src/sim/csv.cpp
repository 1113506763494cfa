#include "sim/csv.h"

#include <charconv>
#include <cmath>

namespace tributary::sim {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool is_number(std::string_view text, double& value) {
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(value);
}

}  // namespace

Result<std::vector<CsvRow>> parse_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  std::size_t number = 0;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    CsvRow row{number, {}};
    bool numeric = false;
    for (bool more = true; more;) {
      const auto comma = line.find(',');
      row.fields.emplace_back(trimmed(line.substr(0, comma)));
      double value = 0;
      numeric = numeric || is_number(row.fields.back(), value);
      more = comma != std::string_view::npos;
      if (more) line.remove_prefix(comma + 1);
      if (row.fields.size() > kMostCsvFields)
        return Error{"line " + std::to_string(number) + ": more than " + std::to_string(kMostCsvFields) + " fields"};
    }
    const bool heading = std::exchange(first, false) && !numeric;
    if (heading) continue;
    if (rows.size() == kMostCsvRows) return Error{"more than " + std::to_string(kMostCsvRows) + " rows"};
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<double> csv_number(const CsvRow& row, std::size_t field, double least, double most) {
  const auto where = "line " + std::to_string(row.line) + ", field " + std::to_string(field + 1);
  if (field >= row.fields.size()) return Error{where + " is missing"};
  double value = 0;
  if (!is_number(row.fields[field], value) || value < least || value > most) {
    char range[64];
    std::snprintf(range, sizeof range, "%g to %g", least, most);
    return Error{where + " must be a number from " + range};
  }
  return value;
}

}  // namespace tributary::sim
