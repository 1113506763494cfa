#include "text/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tributary::text {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and so is this code");

struct TypeName {
  ElementType type;
  const char* name;
  std::size_t size;
};
constexpr TypeName kTypes[] = {{ElementType::kF64, "F64", 8}, {ElementType::kF32, "F32", 4},
                               {ElementType::kF16, "F16", 2}, {ElementType::kBF16, "BF16", 2},
                               {ElementType::kI64, "I64", 8}, {ElementType::kI32, "I32", 4},
                               {ElementType::kI16, "I16", 2}, {ElementType::kI8, "I8", 1},
                               {ElementType::kU8, "U8", 1},   {ElementType::kBool, "BOOL", 1}};

const TypeName& describe(ElementType type) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& row) { return row.type == type; });
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  const float magnitude = exponent == 0 ? static_cast<float>(fraction) * 0x1p-24f
                                        : std::bit_cast<float>(((exponent + 112) << 23) | (fraction << 13));
  return sign ? -magnitude : magnitude;
}

Result<TensorEntry> read_entry(const std::string& name, const nlohmann::json& value, std::uint64_t data_bytes) {
  const std::string where = "the tensor \"" + name + "\" ";
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets")) {
    return Error{where + "lacks dtype, shape or data_offsets"};
  }
  TensorEntry entry;
  const auto& type = value["dtype"];
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeName& known) { return type.is_string() && type == known.name; });
  if (row == std::end(kTypes)) return Error{where + "has an unknown dtype"};
  entry.type = row->type;
  const auto& shape = value["shape"];
  if (!shape.is_array() || shape.size() > 8) return Error{where + "has a bad shape"};
  std::uint64_t size = row->size;
  for (const auto& dimension : shape) {
    if (!dimension.is_number_unsigned()) return Error{where + "has a bad shape"};
    const auto length = dimension.get<std::uint64_t>();
    if (length != 0 && size > data_bytes / length) return Error{where + "is larger than the file"};
    size *= length;
    entry.shape.push_back(length);
  }
  const auto& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return Error{where + "has bad data_offsets"};
  }
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  if (entry.begin > entry.end || entry.end > data_bytes) return Error{where + "lies outside the file"};
  if (entry.end - entry.begin != size) return Error{where + "has offsets that do not match its shape"};
  return entry;
}

}  // namespace

std::size_t element_size(ElementType type) { return describe(type).size; }

std::uint64_t TensorEntry::elements() const { return (end - begin) / element_size(type); }

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes) {
  if (json.size() > kMaxSafetensorsHeader) return Error{"the safetensors header is larger than 16 MiB"};
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(json);
  } catch (const nlohmann::json::exception&) {
    return Error{"the safetensors header is not JSON"};
  }
  if (!root.is_object()) return Error{"the safetensors header is not an object"};
  SafetensorsHeader header;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return Error{"__metadata__ is not an object"};
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return Error{"__metadata__ holds something that is not text"};
        header.metadata[key] = text.get<std::string>();
      }
      continue;
    }
    auto entry = read_entry(name, value, data_bytes);
    if (!entry) return entry.error();
    if (entry->end > entry->begin) ranges.emplace_back(entry->begin, entry->end);
    header.tensors.emplace(name, std::move(*entry));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) return Error{"two tensors of the safetensors file overlap"};
  }
  return header;
}

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  const auto bytes = mapped->bytes();
  std::uint64_t length = 0;
  if (bytes.size() < 8) return Error{path.string() + " is too short for a safetensors file"};
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) return Error{path.string() + " is cut off, or no safetensors file"};
  auto header =
      parse_safetensors_header({reinterpret_cast<const char*>(bytes.data()) + 8, length}, bytes.size() - 8 - length);
  if (!header) return Error{path.string() + ": " + header.error().message};
  Safetensors file(std::make_shared<MappedFile>(std::move(*mapped)), path.string());
  file.header_ = std::move(*header);
  file.data_begin_ = 8 + length;
  return file;
}

const TensorEntry* Safetensors::find(const std::string& name) const {
  const auto found = header_.tensors.find(name);
  return found == header_.tensors.end() ? nullptr : &found->second;
}

std::span<const std::byte> Safetensors::bytes(const TensorEntry& entry) const {
  return file_->bytes().subspan(data_begin_ + entry.begin, entry.end - entry.begin);
}

Result<void> Safetensors::read(const std::string& name, const std::vector<std::uint64_t>& shape,
                               std::span<float> out) const {
  const auto* entry = find(name);
  if (!entry) return Error{path_ + " has no tensor \"" + name + "\""};
  if (entry->shape != shape || entry->elements() != out.size()) {
    return Error{path_ + ": the tensor \"" + name + "\" has another shape than the configuration says"};
  }
  const auto* from = bytes(*entry).data();
  const auto convert = [&](auto element, auto to_float) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&element, from + i * sizeof element, sizeof element);
      out[i] = to_float(element);
    }
  };
  switch (entry->type) {
    case ElementType::kF32:
      std::memcpy(out.data(), from, out.size_bytes());
      return {};
    case ElementType::kF64:
      convert(0.0, [](double x) { return static_cast<float>(x); });
      return {};
    case ElementType::kBF16:
      convert(std::uint16_t{}, [](std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); });
      return {};
    case ElementType::kF16:
      convert(std::uint16_t{}, from_half);
      return {};
    default:
      return Error{path_ + ": the tensor \"" + name + "\" holds no floating-point numbers"};
  }
}

Result<void> write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& tensor : tensors) {
    std::uint64_t size = element_size(tensor.type);
    for (const auto length : tensor.shape) size *= length;
    TRIBUTARY_CHECK(size == tensor.bytes.size(), "bytes as type and shape say: " + tensor.name);
    root[tensor.name] = {
        {"dtype", describe(tensor.type).name}, {"shape", tensor.shape}, {"data_offsets", {at, at + size}}};
    at += size;
  }
  std::string header = root.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  auto file = AtomicFile::create(path);
  if (!file) return file.error();
  if (auto written = file->write(std::as_bytes(std::span(&length, 1))); !written) return written;
  if (auto written = file->write(header); !written) return written;
  for (const auto& tensor : tensors) {
    if (auto written = file->write(tensor.bytes); !written) return written;
  }
  return file->commit();
}

}  // namespace tributary::text
