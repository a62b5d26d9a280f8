#include "base/writable.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace sextant {
namespace {

namespace fs = std::filesystem;

class Writable : public testing::Test {
 protected:
  std::string made(const std::string& name) { return why_not_writable(dir_ / name, Absent::Made); }
  TempDir dir_;
};

TEST_F(Writable, ADirectoryOrOneThatCanBeMade) {
  EXPECT_EQ(made("."), "");
  EXPECT_EQ(made("a/b/c"), "");
  EXPECT_EQ(made("a/b/c/"), "");
  EXPECT_EQ(why_not_writable("not/there", Absent::Made), "");  // below the current directory
  EXPECT_EQ(why_not_writable("", Absent::Made), "");
  EXPECT_EQ(why_not_writable(dir_.path(), Absent::Refused), "");
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(Writable, SaysWhatIsInTheWay) {
  std::ofstream(dir_ / "file") << "x";
  EXPECT_EQ(made("file"), (dir_ / "file") + std::string(" is a file"));
  EXPECT_EQ(made("file/"), (dir_ / "file") + std::string(" is a file"));
  EXPECT_EQ(made("file/a/b"), (dir_ / "file") + std::string(" is a file"));
  fs::create_symlink("nowhere", dir_ / "link");
  EXPECT_EQ(made("link/a"), (dir_ / "link") + std::string(" is a link to what is not there"));
  EXPECT_NE(made(std::string(300, 'x')).find("too long"), std::string::npos);
  EXPECT_EQ(why_not_writable("/proc/x", Absent::Made), "/proc: nothing can be made there");
  EXPECT_NE(why_not_writable(dir_ / "none", Absent::Refused).find("No such file"),
            std::string::npos);
  if (::geteuid() == 0) return;  // whom no mode keeps out
  fs::create_directory(dir_ / "closed");
  fs::permissions(dir_ / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(made("closed/a"), (dir_ / "closed") + std::string(": Permission denied"));
}

}  // namespace
}  // namespace sextant
