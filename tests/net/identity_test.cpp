#include "net/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "net/hello.h"

namespace tributary::net {
namespace {

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tributary-net-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

TEST_F(Files, AnIdentityIsMadeOnceAndLoadedLater) {
  const auto file = folder / "deep" / "identity.pem";
  const auto first = Identity::load_or_create(file);
  ASSERT_TRUE(first.ok()) << first.error().message;
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto second = Identity::load_or_create(file);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->public_key(), second->public_key());
  EXPECT_NE(first->public_key(), Identity::generate().public_key());
}

TEST_F(Files, ADamagedOrOpenKeyFileIsAnErrorThatNamesIt) {
  const auto file = folder / "identity.pem";
  std::ofstream(file) << "no key";
  auto loaded = Identity::load_or_create(file);
  ASSERT_FALSE(loaded.ok());  // the umask leaves it readable by others
  EXPECT_NE(loaded.error().message.find("chmod 600 " + file.string()), std::string::npos);
  ::chmod(file.c_str(), 0600);
  loaded = Identity::load_or_create(file);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find(file.string()), std::string::npos);
}

TEST_F(Files, ASecretGoesThroughAFileAndIsNotOverwritten) {
  const auto file = folder / "secret";
  const auto secret = RunSecret::generate();
  ASSERT_TRUE(secret.save(file).ok());
  EXPECT_FALSE(RunSecret::generate().save(file).ok());
  const auto loaded = RunSecret::load(file);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->hex(), secret.hex());
  EXPECT_FALSE(RunSecret::parse("abc").ok());
  EXPECT_FALSE(RunSecret::parse(std::string(63, 'a') + "g").ok());
  EXPECT_TRUE(RunSecret::parse(std::string(64, 'A') + "\n").ok());
}

TEST(Proof, DependsOnSecretRoleChannelAndBothKeys) {
  const auto secret = RunSecret::generate();
  const auto a = Identity::generate().public_key(), b = Identity::generate().public_key();
  std::array<std::byte, 32> channel{};
  const auto proof = make_proof(secret, Role::kDialler, channel, a, b);
  EXPECT_TRUE(proof_matches(proof, make_proof(secret, Role::kDialler, channel, a, b)));
  EXPECT_FALSE(proof_matches(proof, make_proof(secret, Role::kListener, channel, a, b)));
  EXPECT_FALSE(proof_matches(proof, make_proof(secret, Role::kDialler, channel, b, a)));
  EXPECT_FALSE(proof_matches(proof, make_proof(RunSecret::generate(), Role::kDialler, channel, a, b)));
  channel[31] = std::byte{1};
  EXPECT_FALSE(proof_matches(proof, make_proof(secret, Role::kDialler, channel, a, b)));
  EXPECT_FALSE(proof_matches(proof, std::span(proof).first(31)));
}

TEST(Hello, ComesBackAsItWasAndEveryTruncationIsRefused) {
  Hello hello;
  hello.node = NodeId(7);
  hello.incarnation = Incarnation(99);
  hello.capabilities = 5;
  hello.run_hash = 123;
  hello.region = "Tokyo";
  hello.host = "10.0.0.1";
  hello.port = 4711;
  const auto bytes = encode(hello);
  const auto back = decode_hello(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->node, hello.node);
  EXPECT_EQ(back->incarnation, hello.incarnation);
  EXPECT_EQ(back->region, "Tokyo");
  EXPECT_EQ(back->host, "10.0.0.1");
  EXPECT_EQ(back->port, 4711);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_hello(std::span(bytes).first(size)).ok()) << size;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer).ok());
  hello.region = "\x1b[2J";
  EXPECT_FALSE(decode_hello(encode(hello)).ok());
}

}  // namespace
}  // namespace tributary::net
