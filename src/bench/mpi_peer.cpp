#include "bench/mpi_peer.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "bench/collectives.h"
#include "comm/mpirun.h"

namespace sextant {
namespace {

std::string quote(const std::string& word) {
  std::string out = "'";
  for (const char letter : word)
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

// Output lines and exit status of a command.
struct Printed {
  std::vector<std::string> lines;
  int status = 0;
};

Printed run_shell(const std::string& line) {
  std::FILE* pipe = ::popen(line.c_str(), "r");
  SXT_CHECK(pipe != nullptr, Failure, "cannot run ", line);
  std::string text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  Printed printed;
  for (std::string& one : split(text, '\n'))
    if (one.find_first_not_of(" -\r") != std::string::npos) printed.lines.push_back(std::move(one));
  const int status = ::pclose(pipe);
  printed.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return printed;
}

}  // namespace

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& directory : split(path == nullptr ? "" : path, ':')) {
    std::error_code ignored;
    if (std::filesystem::exists(directory + "/" + program, ignored)) return true;
  }
  return false;
}

std::string to_text(const std::vector<NativeTask>& tasks) {
  std::string out;
  for (const NativeTask& task : tasks)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name_of(task.operation), task.bytes);
  return out;
}

std::vector<NativeTask> parse_tasks(std::string_view text) {
  std::vector<NativeTask> tasks;
  for (const std::string& entry : split(text, ',')) {
    const std::vector<std::string> parts = split(entry, ':');
    SXT_CHECK(parts.size() == 2, Usage, "--as-mpi-peer '", entry, "': a task is operation:bytes");
    const std::optional<int64_t> bytes = parse_int(parts[1]);
    SXT_CHECK(bytes && *bytes > 0, Usage, "--as-mpi-peer '", entry, "': bytes must be at least 1");
    tasks.push_back({parse_operations(parts[0]).front(), *bytes});
  }
  return tasks;
}

std::vector<double> run_mpi_peer(const std::string& program, int ranks,
                                 const std::vector<NativeTask>& tasks, const Turns& turns,
                                 double timeout_s) {
  SXT_CHECK(!mpi_library().empty(), Failure, "this build has no MPI");
  SXT_CHECK(is_on_path("mpirun"), Failure, "mpirun of Open MPI is not on PATH");
  std::string line = fmt::format("timeout -k 5 {}", timeout_s);  // also ends mpirun's ranks
  const std::vector<std::string> command = {
      program,         "bench",
      "collectives",   "--json",
      "--repeats",     std::to_string(turns.repeats),
      "--turn-ms",     std::to_string(std::lround(1e3 * turns.seconds)),
      "--as-mpi-peer", to_text(tasks)};
  for (const std::string& word : mpirun_command(ranks, command, "")) line += " " + quote(word);
  const Printed printed = run_shell(line + " 2>&1 </dev/null");
  SXT_CHECK(printed.status != 124 && printed.status != 137, Failure, "MPI on ", ranks,
            " ranks was not done after ", timeout_s, " s");
  for (const std::string& one : printed.lines) {
    const nlohmann::json json = nlohmann::json::parse(one, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("seconds") || !json["seconds"].is_array()) continue;
    std::vector<double> seconds;
    for (const nlohmann::json& value : json["seconds"])
      if (value.is_number()) seconds.push_back(value.get<double>());
    if (seconds.size() == tasks.size()) return seconds;
  }
  SXT_FAIL(Failure, "MPI on ", ranks, " ranks: mpirun ended with ", printed.status, ": ",
           printed.lines.empty() ? "it said nothing" : printed.lines.front());
}

}  // namespace sextant
