#include "base/writable.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace sextant {
namespace {

// File systems of the kernel, in which even root makes no directory.
bool is_of_the_kernel(const std::string& directory) {
  struct statfs info {};
  return ::statfs(directory.c_str(), &info) == 0 &&
         (info.f_type == PROC_SUPER_MAGIC || info.f_type == SYSFS_MAGIC);
}

}  // namespace

std::string why_not_writable(const std::string& path, Absent absent) {
  std::filesystem::path at = std::filesystem::path(path).lexically_normal();
  if (at.empty()) at = ".";
  while (true) {
    struct stat info {};
    if (::stat(at.c_str(), &info) == 0) {
      if (!S_ISDIR(info.st_mode)) return concat(at.string(), " is a file");
      if (::access(at.c_str(), W_OK | X_OK) != 0)
        return concat(at.string(), ": ", std::strerror(errno));
      return is_of_the_kernel(at) ? concat(at.string(), ": nothing can be made there") : "";
    }
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) return concat(at.string(), ": ", std::strerror(error));
    if (::lstat(at.c_str(), &info) == 0)
      return concat(at.string(), " is a link to what is not there");
    if (absent == Absent::Refused) return concat(at.string(), ": ", std::strerror(error));
    at = at.parent_path();
    if (at.empty()) at = ".";
  }
}

}  // namespace sextant
