#include "bench/blas_peers.h"

#include <dlfcn.h>

namespace sextant {
namespace {

// Debian's paths of library variants: both OpenBLAS variants have one file name, so only the
// directory distinguishes them.
struct Candidate {
  const char* name;
  const char* folder;
  const char* file;
  const char* set_threads;
  const char* package;
};
constexpr Candidate kCandidates[] = {
    {"OpenBLAS openmp", "openblas-openmp", "libopenblas.so.0", "openblas_set_num_threads",
     "libopenblas0-openmp"},
    {"OpenBLAS pthread", "openblas-pthread", "libopenblas.so.0", "openblas_set_num_threads",
     "libopenblas0-pthread"},
    {"BLIS openmp", "blis-openmp", "libblis.so.4", "bli_thread_set_num_threads", "libblis4-openmp"},
};
constexpr const char* kRoots[] = {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/"};

BlasPeer load(const Candidate& candidate) {
  BlasPeer peer{.name = candidate.name};
  for (const char* root : kRoots) {
    const std::string path = std::string(root) + candidate.folder + "/" + candidate.file;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    peer.sgemm = reinterpret_cast<BlasPeer::Sgemm>(dlsym(library, "cblas_sgemm"));
    peer.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, candidate.set_threads));
    break;
  }
  return peer;
}

}  // namespace

BlasPeers find_blas_peers() {
  BlasPeers peers;
  for (const Candidate& candidate : kCandidates) {
    const BlasPeer peer = load(candidate);
    if (peer.sgemm && peer.set_threads)
      peers.found.push_back(peer);
    else
      peers.missing.push_back(std::string(candidate.name) + " (apt-get install " +
                              candidate.package + ")");
  }
  return peers;
}

}  // namespace sextant
