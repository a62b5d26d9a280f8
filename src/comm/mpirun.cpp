#include "comm/mpirun.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/parse.h"
#include "comm/launch.h"
#include "fault/deadline.h"

namespace sextant {
namespace {

bool has_flag(const std::vector<std::string>& flags, const char* name) {
  return std::find(flags.begin(), flags.end(), name) != flags.end();
}

// Whether CMA (process_vm_readv) works. Ranks of one host use it; in a sandbox that forbids it,
// Open MPI prints a warning for every message.
bool may_read_other_processes() {
  char from = 1, to = 0;
  const iovec local = {&to, 1}, remote = {&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

// Global, because a signal handler counts here.
std::atomic<int> signals_seen{0};

void on_signal(int) {
  signals_seen.fetch_add(1);
}

// Counts SIGINT and SIGTERM while it exists.
class SignalWatch {
 public:
  SignalWatch() {
    signals_seen.store(0);
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalWatch() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

std::string read_proc(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Ranks that this mpirun has started on this host: its children that have the number of a rank. Its
// other children are ssh or srun.
std::vector<pid_t> local_ranks(pid_t mpirun) {
  std::vector<pid_t> ranks;
  std::error_code ignored;
  const std::string tasks = concat("/proc/", mpirun, "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks, ignored))
    for (const std::string& child : split(read_proc(task.path().string() + "/children"), ' ')) {
      const std::optional<int64_t> pid = parse_int(child);
      const std::string environment = concat('\0', read_proc(concat("/proc/", child, "/environ")));
      if (pid && environment.find(concat('\0', "OMPI_COMM_WORLD_RANK=")) != std::string::npos)
        ranks.push_back(static_cast<pid_t>(*pid));
    }
  return ranks;
}

// The mpirun process. It has its own process group, so that only we get the terminal's signals and
// forward them once. It ends when this process ends, even by SIGKILL.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    int err[2], problem[2];
    SXT_CHECK(::pipe2(err, O_CLOEXEC) == 0 && ::pipe2(problem, O_CLOEXEC) == 0, Failure,
              "no pipe for mpirun: ", std::strerror(errno));
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) exec_child(words.data(), err[1], problem[1], parent);
    ::close(err[1]);
    ::close(problem[1]);
    err_ = err[0];
    int code = pid_ < 0 ? errno : 0;
    // exec closes the pipe when it succeeds; otherwise errno is read from it.
    while (::read(problem[0], &code, sizeof code) < 0 && errno == EINTR) {
    }
    ::close(problem[0]);
    SXT_CHECK(code == 0, Config, "cannot start ", command[0], ": ", std::strerror(code),
              "; install openmpi-bin, or set run.transport=threads");
  }
  ~Child() {
    ::close(err_);
    if (pid_ <= 0 || status_) return;
    ::kill(-pid_, SIGKILL);  // the whole group: also its ssh or srun processes
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int number) { ::kill(pid_, number); }
  // To the ranks on this host also directly: not every mpirun forwards signals. A second one of the
  // same number changes nothing.
  void send_to_ranks(int number) {
    const std::vector<pid_t> ranks = local_ranks(pid_);
    send(number);
    for (const pid_t rank : ranks) ::kill(rank, number);
  }
  // Its stderr output within this time, "" for none. A signal ends the wait early.
  std::string listen(int milliseconds) {
    pollfd stream = {is_open_ ? err_ : -1, POLLIN, 0};
    if (::poll(&stream, 1, milliseconds) <= 0) return "";
    char buffer[4096];
    const ssize_t count = ::read(err_, buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) is_open_ = false;
    return {buffer, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }
  bool is_open() const { return is_open_; }
  // Its waitpid status, once it has ended.
  std::optional<int> status() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_;
  }

 private:
  // Runs between fork and exec: only async-signal-safe calls.
  [[noreturn]] static void exec_child(char** words, int err, int problem, pid_t parent) {
    for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGUSR1}) ::signal(number, SIG_DFL);
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(err, 2);
    if (::getppid() == parent) ::execvp(words[0], words);
    const int code = errno;
    [[maybe_unused]] const ssize_t written = ::write(problem, &code, sizeof code);
    ::_exit(127);
  }

  pid_t pid_ = -1;
  int err_ = -1;
  bool is_open_ = true;
  std::optional<int> status_;
};

void show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// Forwards the child's output and our signals until it ends; its status, or nullopt when it had to
// be killed.
std::optional<int> forward_until_exit(Child& child, MpirunOutput& output, const Clock& clock) {
  constexpr int kLook = 50;  // milliseconds
  std::optional<Deadline> grace;
  int passed_on = 0;
  while (true) {
    show(output.take(child.listen(kLook)));
    if (const std::optional<int> status = child.status()) {
      // A rank that outlives mpirun may keep the pipe open, so read only what is there now.
      while (child.is_open()) {
        const std::string text = child.listen(0);
        if (text.empty()) break;
        show(output.take(text));
      }
      return status;
    }
    for (; passed_on < signals_seen.load(); ++passed_on) {
      if (passed_on == 0)
        child.send_to_ranks(SIGUSR1);
      else
        child.send(SIGTERM);
    }
    if (output.has_report() && !grace) grace.emplace(clock, kMpirunGrace);
    if (grace && grace->is_over()) return std::nullopt;
  }
}

constexpr int kSignals = 64;

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void show_killed(const std::string& rank, int signal) {
  show(concat("error: ", rank, " was killed by signal ", signal, " (", ::strsignal(signal), ")\n"));
}

// The exit code for an mpirun that ended with this status when no rank had reported one.
int exit_code_for(int status, const MpirunOutput& output) {
  const int code = code_of(status);
  // A rank that exited with a code has printed its error.
  if (code == 0 || (code <= 128 && output.has_ended_rank())) return code;
  if (signals_seen.load() > 0) return 130;  // we killed it
  const std::string killed = WIFSIGNALED(status) ? "mpirun" : output.killed_rank();
  if (killed.empty()) show(output.boxes());
  const bool has_spoken = !output.boxes().empty();  // for bad flags mpirun prints no box
  if (code > 128 && code <= 128 + kSignals) {
    show_killed(killed.empty() ? "a rank" : killed, code - 128);
    return exit_code(Fault::Peer);
  }
  show(concat("error: mpirun could not start the ranks, it ended with ", code,
              "; run.mpirun has the flags it is given besides ours\n"));
  return exit_code(has_spoken ? Fault::Peer : Fault::Config);
}

}  // namespace

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (const char letter : text) {
    if (quote != 0) {
      if (letter == quote)
        quote = 0;
      else
        word += letter;
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
      inside = true;
    } else if (letter == ' ' || letter == '\t' || letter == '\n') {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += letter;
      inside = true;
    }
  }
  SXT_CHECK(quote == 0, Config, "run.mpirun: the quote ", quote, " has no end in: ", text);
  if (inside) words.push_back(word);
  return words;
}

std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& command,
                                        const std::string& flags) {
  const std::vector<std::string> own = split_words(flags);
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(ranks)};
  const auto add = [&](const char* name, std::initializer_list<const char*> values = {}) {
    if (has_flag(own, name)) return;
    words.emplace_back(name);
    words.insert(words.end(), values.begin(), values.end());
  };
  if (::geteuid() == 0) add("--allow-run-as-root");
  // By default Open MPI refuses more ranks than cores and binds each rank with all its threads to
  // one core.
  if (!has_flag(own, "--nooversubscribe")) add("--oversubscribe");
  add("--bind-to", {"none"});
  if (!may_read_other_processes() &&
      flags.find("btl_vader_single_copy_mechanism") == std::string::npos)
    words.insert(words.end(), {"--mca", "btl_vader_single_copy_mechanism", "none"});
  words.insert(words.end(), {"-x", concat(kParentVariable, "=1")});
  words.insert(words.end(), own.begin(), own.end());
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

int run_mpirun(int ranks, const std::vector<std::string>& command, const std::string& flags,
               const Clock& clock) {
  const std::vector<std::string> words = mpirun_command(ranks, command, flags);
  std::fflush(nullptr);
  const SignalWatch watch;
  Child child(words);
  MpirunOutput output;
  const std::optional<int> status = forward_until_exit(child, output, clock);
  const int ended = status ? code_of(*status) : 0;
  if (output.has_report() && !output.killed_rank().empty() && ended > 128 &&
      ended <= 128 + kSignals)
    show_killed(output.killed_rank(), ended - 128);  // why the rank is missing
  show(output.rest());
  if (signals_seen.load() > 1) return 130;  // ranks only reported that they were stopped
  if (output.has_report()) return output.code();
  return status ? exit_code_for(*status, output) : exit_code(Fault::Peer);
}

}  // namespace sextant
