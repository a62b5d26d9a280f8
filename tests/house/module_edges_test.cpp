#include "house/module_edges.h"

#include <gtest/gtest.h>

#include <fstream>

#include "house/sources.h"
#include "support/built.h"
#include "support/temp_dir.h"

namespace sextant::house {
namespace {

namespace fs = std::filesystem;

// A small house: top may include middle and, through it, bottom; side stands alone.
class SmallHouse : public ::testing::Test {
 protected:
  void SetUp() override {
    write("CMakeLists.txt",
          "# sextant_module(ghost DEPS top)\nsextant_module(bottom)\nsextant_module(side)\n"
          "sextant_module(middle DEPS\n  bottom)\nsextant_program(top DEPS middle)\n");
    write("src/bottom/ground.h", "#pragma once\n#include <vector>\n");
    write("src/bottom/cuda/secret.h", "#pragma once\n#include <cuda_runtime.h>\n");
    write("src/side/garden.h", "#pragma once\n");
    write("src/middle/stairs.h", "#pragma once\n#include \"bottom/ground.h\"\n");
    write("src/top/main.cpp", "#include \"bottom/ground.h\"\n#include \"middle/stairs.h\"\n");
  }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
  }
  fs::path root() const { return dir_.path(); }
  void expect_only(const std::string& line) {
    EXPECT_EQ(find_forbidden_edges(root()), std::vector<std::string>{line});
  }

 private:
  TempDir dir_;
};

TEST_F(SmallHouse, IsInOrder) {
  EXPECT_EQ(find_forbidden_edges(root()), std::vector<std::string>{});
}

TEST_F(SmallHouse, AModuleSeesWhatItsModulesSee) {
  EXPECT_EQ(read_modules(root()).at("top"), (std::set<std::string>{"bottom", "middle"}));
  EXPECT_FALSE(read_modules(root()).contains("ghost"));
}

TEST_F(SmallHouse, AnUpwardEdgeIsCaught) {
  write("src/bottom/cellar.cpp", "\n#include \"middle/stairs.h\"\n");
  expect_only("bottom/cellar.cpp:2: middle/stairs.h is not in a module that bottom may include");
}

TEST_F(SmallHouse, ASidewaysEdgeIsCaughtInAPrivateFolderToo) {
  write("src/middle/cpu/step.cpp", "# include \"side/garden.h\"  // why not\n");
  expect_only("middle/cpu/step.cpp:1: side/garden.h is not in a module that middle may include");
}

TEST_F(SmallHouse, APrivateFolderOfAnotherModuleIsCaught) {
  write("src/middle/thief.cpp", "#include \"bottom/cuda/secret.h\"\n");
  expect_only("middle/thief.cpp:1: bottom/cuda/secret.h is private to bottom");
}

TEST_F(SmallHouse, CudaFoldersSeeThoseOfModulesBelow) {
  write("src/middle/cuda/kernel.cu", "#include \"bottom/cuda/secret.h\"\n");
  EXPECT_TRUE(find_forbidden_edges(root()).empty());
  write("src/bottom/cuda/kernel.h", "#pragma once\n#include \"middle/cuda/other.h\"\n");
  write("src/middle/cuda/other.h", "#pragma once\n");
  expect_only(
      "bottom/cuda/kernel.h:2: middle/cuda/other.h is not in a module that bottom may include");
}

TEST_F(SmallHouse, DeviceHeadersOutsideTheirFolderAreCaught) {
  write("src/bottom/plain.cpp", "#include <cublas_v2.h>\n");
  expect_only("bottom/plain.cpp:1: cublas_v2.h belongs in a folder cuda/ only");
  write("src/bottom/plain.cpp", "#include \"mpi.h\"\n");
  expect_only("bottom/plain.cpp:1: mpi.h belongs in a folder mpi/ only");
}

TEST_F(SmallHouse, HeavyHeadersAreForSourcesOnly) {
  write("src/bottom/text.cpp", "#include <fmt/format.h>\n");
  EXPECT_TRUE(find_forbidden_edges(root()).empty());
  write("src/bottom/text.h", "#pragma once\n#include <fmt/format.h>\n");
  expect_only("bottom/text.h:2: fmt/format.h is heavy: include it in a .cpp only");
}

TEST_F(SmallHouse, AHeaderWithoutPragmaOnceIsCaught) {
  write("src/side/shed.h", "// #pragma once\n");
  expect_only("side/shed.h: lacks #pragma once");
}

TEST_F(SmallHouse, ARelativeIncludeIsCaught) {
  write("src/bottom/near.cpp", "#include \"ground.h\"\n");
  expect_only("bottom/near.cpp:1: ground.h is no file under src/");
}

TEST_F(SmallHouse, OnlyTestsIncludeTestSupport) {
  write("src/side/garden_test.cpp", "#include \"support/temp_dir.h\"\n");
  EXPECT_TRUE(find_forbidden_edges(root()).empty());
  write("src/side/garden.cpp", "#include \"support/temp_dir.h\"\n");
  expect_only("side/garden.cpp:1: support/temp_dir.h is no file under src/");
}

TEST_F(SmallHouse, AModuleThatIsNotListedIsCaught) {
  write("src/attic/box.cpp", "#include \"bottom/ground.h\"\n");
  expect_only(
      "attic/box.cpp:1: bottom/ground.h is included by a module that CMakeLists.txt does not list");
}

TEST(Modules, IncludeOnlyWhatTheyMay) {
  const fs::path root = source_dir();
  EXPECT_GT(read_sources(root).size(), 50u);
  EXPECT_TRUE(read_modules(root).at("ops").contains("base"));
  for (const std::string& line : find_forbidden_edges(root)) ADD_FAILURE() << line;
}

TEST(Modules, AreAllListedAndHaveAReadme) {
  const fs::path root = source_dir();
  const Modules modules = read_modules(root);
  for (const auto& entry : fs::directory_iterator(root / "src")) {
    const std::string module = entry.path().filename().string();
    EXPECT_TRUE(modules.contains(module)) << module << " is not in CMakeLists.txt";
    EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << module << " has no README.md";
  }
}

// Others ask for the features of a model (features_of), which stay true when a family is added.
TEST(Modules, AskForTheFamilyInOneFile) {
  bool is_asked = false;
  for (const Source& source : read_sources(source_dir())) {
    const std::string module = split_path(source.path)[0];
    const bool may = module == "config" || module == "formats" ||
                     source.path.starts_with("checkpoint/hf_") ||
                     source.path.find("_test.") != std::string::npos;
    if (may) continue;
    for (const std::string& line : source.lines) {
      if (line.find("Family::") == std::string::npos &&
          line.find("has_experts(config") == std::string::npos)
        continue;
      EXPECT_EQ(source.path, "blueprint/blueprint.cpp") << line;
      is_asked = true;
    }
  }
  EXPECT_TRUE(is_asked);
}

TEST(Modules, HaveNoFileOverFourHundredLinesButTables) {
  for (const Source& source : read_sources(source_dir())) {
    const bool is_table = source.path.find("_tables.") != std::string::npos;
    EXPECT_TRUE(is_table || source.lines.size() <= 400) << source.path << " is long: split it";
  }
}

}  // namespace
}  // namespace sextant::house
