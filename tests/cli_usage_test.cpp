// How the program takes its arguments and refuses bad ones, whatever the command.
#include <sys/stat.h>

#include "support/cli.h"

namespace sextant {
namespace {

class Cli : public CliTest {};

TEST_F(Cli, WithoutACommandItSaysWhichThereAre) {
  refused({"--json"}, 2,
          {"a command is missing", "demo, plan, simulate, train, verify, eval", "sextant --help"});
  refused({"data"}, 2,
          {"a command is missing", "tokenize, train-tokenizer, inspect", "sextant data --help"});
}

TEST_F(Cli, UnknownNamesAreRefusedWithTheNearest) {
  refused({"tran"}, 2, {"unknown command 'tran'", "did you mean 'train'?"});
  refused({"tran", "--resume"}, 2, {"unknown command 'tran'"});
  refused({"foo", "--json"}, 2, {"unknown command 'foo'", "there are: demo"});
  refused({"data", "inspekt"}, 2, {"did you mean 'inspect'?"});
  refused({"train", "--resme"}, 2, {"unknown option --resme, did you mean '--resume'?"});
  refused({"train", "-x"}, 2, {"unknown option -x"});
  refused({"train", "a.toml", "b.toml"}, 2, {"unexpected argument 'b.toml'"});
  refused({"train", "--model.layrs=3"}, 2, {"model.layrs", "did you mean 'model.layers'?"});
  refused({"train", "--model.preset=tiyn"}, 2, {"did you mean 'tiny'?"});
  refused({"bench", "step", "--preset", "tinny"}, 2, {"did you mean 'tiny'?"});
  refused({"completion", "bsh"}, 2, {"bash, zsh, fish", "did you mean 'bash'?"});
  refused({"train", "--color=blue"}, 2, {"auto, always, never"});
  refused({"--colour", "never", "train"}, 2, {"unknown option --colour, did you mean '--color'?"});
  refused({"train", "--run.device=gpu"}, 2, {"did you mean 'cuda'?"});
  // A name that is like none is not taken for a short one.
  const Ran unlike = run({"doctor", "--fast"});
  EXPECT_EQ(unlike.err, "error: unknown option --fast (see sextant doctor --help)\n");
  EXPECT_EQ(unlike.code, 2);
}

TEST_F(Cli, WhereNoModelIsSetItSaysHowToNameOneInALineOrTwo) {
  for (const Arguments& arguments :
       {Arguments{"train"}, Arguments{"train", "--model.preset=gpt5"}, Arguments{"verify"}}) {
    refused(arguments, 2, {"sextant config models"});
    EXPECT_LT(run(arguments).err.size(), 200u);
  }
  write("configs/small.toml", "[model]\npreset = \"tiny\"\n");
  refused({"train", "configs/small"}, 2, {"did you mean 'configs/small.toml'?"});
  write("run/config.toml", "");
  refused({"train", "run"}, 2, {"run/config.toml is one"});
}

TEST_F(Cli, ValuesOfTheWrongKindAreRefusedWithTheRange) {
  refused({"train", "-n", "two"}, 2, {"'two': takes a whole number from 0 to 2147483647"});
  refused({"train", "-n"}, 2, {"--ranks needs a value"});
  refused(Arguments{"train", "-n", "2"} + tiny("r"), 2, {"-n 2", "1 rank"});
  refused({"eval", "x", "--batch", "3000000000"}, 2, {"2147483647"});
  refused({"eval", "x", "--batch", "-1"}, 2, {"whole number from 0"});
  refused({"eval", "x", "--batch", "0"}, 2, {"--batch 0", "at least 1"});
  refused({"generate", "x", "--temperature", "nan"}, 2, {"finite number"});
  refused({"generate", "x", "--temperature", "inf"}, 2, {"finite number"});
  refused({"generate", "x", "--temperature", "-0.5"}, 2, {"0 or more"});
  refused({"generate", "x", "--top-p", "1.5"}, 2, {"at most 1"});
  refused({"generate"}, 2, {"checkpoint is required", "sextant generate --help"});
  refused({"train", "--run.out"}, 2, {"--run.out needs a value"});
  refused({"doctor", "--run.out=x"}, 2, {"takes no settings"});
  refused({"train", "--resume", "--from", "x"}, 2, {"exclude each other"});
}

TEST_F(Cli, SettingsThatCannotBeAreRefused) {
  const Arguments train = Arguments{"train"} + tiny("r");
  refused(train + Arguments{"--model.heads=3"}, 2, {"model.heads = 3", "model.hidden = 16"});
  refused(train + Arguments{"--model.hidden=2147483648"}, 2, {"from 1 to 2147483647"});
  refused(train + Arguments{"--model.layers=two"}, 2, {"model.layers", "an integer"});
  refused(train + Arguments{"--optim.lr=nan"}, 2, {"optim.lr", "a number from"});
  refused(train + Arguments{"--optim.lr=1e999"}, 2, {"optim.lr", "a number from"});
  refused(train + Arguments{"--run.tensorboard=7"}, 2, {"true or false"});
  refused({"train", "missing.toml"}, 2, {"missing.toml", "no such file"});
  write("wrong.toml", "[model]\npreset = \"tiny\"\nlayers = \"many\"\n");
  refused({"train", "wrong.toml"}, 2, {"wrong.toml:3", "model.layers"});
  write("unknown.toml", "[model]\npreset = \"tiny\"\n[optim]\nlearning_rte = 1\n");
  refused({"train", "unknown.toml"}, 2, {"unknown.toml:4", "learning_rte"});
  write("unquoted.toml", "[model]\npreset = tiny\n");
  refused({"train", "unquoted.toml"}, 2, {"unquoted.toml:2", "text needs quotes"});
  write("broken.toml", "[model\n");
  refused({"train", "broken.toml"}, 2, {"broken.toml:1"});
  write("future.toml", "schema = 2\n");
  refused({"train", "future.toml"}, 2, {"schema"});
  EXPECT_FALSE(exists("r"));
}

TEST_F(Cli, ATextWithDashesAndADotIsNoSetting) {
  refused({"generate", "nowhere", "--prompt", "-- Mr. Smith"}, 4, {"nowhere"});
}

TEST_F(Cli, FlagsForAllCommandsStandBeforeOrAfterTheCommand) {
  const Ran before = run({"--json", "-q", "config", "keys"});
  EXPECT_EQ(before.code, 0);
  EXPECT_EQ(before.out, run({"config", "keys", "--json"}).out);
}

TEST_F(Cli, VersionSaysWhatTheBuildCanDo) {
  const Ran ran = run({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(ran.out.starts_with("sextant ")) << ran.out;
  EXPECT_NE(ran.out.find("cpu"), std::string::npos);
}

TEST_F(Cli, CompletionScriptsAreThereForEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const nlohmann::json document = json({"completion", shell});
    EXPECT_EQ(document["shell"], shell);
    EXPECT_EQ(document["script"], run({"completion", shell}).out);
  }
}

TEST_F(Cli, AnOutputThatTakesNothingIsAnError) {
  const std::vector<Arguments> commands = {
      {"config", "keys"}, {"--help"}, {"--version"}, {"train", "--help"}, {"completion"}};
  for (const Arguments& arguments : commands) {
    for (const char* target : {"/dev/full", ""}) {
      RunSettings elsewhere = settings();
      elsewhere.in_child = [target] {
        ::close(1);
        if (*target != '\0') ::open(target, O_WRONLY);
      };
      const Ran ran = run(arguments, elsewhere);
      EXPECT_EQ(ran.code, 1) << join(arguments, " ");
      EXPECT_TRUE(ran.err.starts_with("error: cannot write to standard output: ")) << ran.err;
    }
  }
}

TEST_F(Cli, AReaderThatHasGoneEndsItWithoutAWord) {
  RunSettings unread = settings();
  unread.in_child = [] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], 1) != 1) ::_exit(127);
    ::close(ends[0]);
    ::signal(SIGPIPE, SIG_DFL);
  };
  const Ran ran = run({"config", "keys"}, unread);
  EXPECT_EQ(ran.code, 128 + SIGPIPE);
  EXPECT_EQ(ran.err, "");
}

TEST_F(Cli, ColourIsForTerminalsThatWantIt) {
  const Arguments wrong = {"train", "missing.toml"};
  const auto coloured = [&](const Arguments& more, bool terminal, const std::string& variable) {
    RunSettings with = settings();
    with.terminal = terminal;
    if (!variable.empty()) with.set = {variable};
    const Ran ran = run(wrong + more, with);
    EXPECT_EQ(ran.code, 2);
    return ran.err.find('\x1b') != std::string::npos;
  };
  EXPECT_FALSE(coloured({}, false, ""));
  EXPECT_TRUE(coloured({"--color=always"}, false, ""));
  EXPECT_TRUE(coloured({}, true, ""));
  EXPECT_FALSE(coloured({}, true, "NO_COLOR=1"));
  EXPECT_FALSE(coloured({"--color=never"}, true, ""));
}

TEST_F(Cli, ConfigShowsComparesAndListsSettings) {
  write("a.toml", "[model]\npreset = \"tiny\"\n");
  write("b.toml", "extends = \"a.toml\"\n[optim]\nlr = 0.5\n");
  const nlohmann::json shown = json({"config", "show", "b.toml", "--train.steps=7"});
  EXPECT_EQ(shown["config"]["optim"]["lr"], 0.5);
  EXPECT_EQ(shown["config"]["train"]["steps"], 7);
  EXPECT_EQ(shown["origins"]["train.steps"], "command line");
  const nlohmann::json differences = json({"config", "diff", "a.toml", "b.toml"})["differences"];
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0]["key"], "optim.lr");
  EXPECT_EQ(run({"config", "diff", "a.toml", "a.toml"}).out, "no difference\n");
  EXPECT_GT(json({"config", "keys"})["keys"].size(), 40u);
  EXPECT_NE(run({"config", "show", "a.toml"}).out.find("preset"), std::string::npos);
}

TEST_F(Cli, ConfigReferencePageIsUpToDate) {
  std::ifstream page(source_dir() + "/docs/config.md");
  std::ostringstream text;
  text << page.rdbuf();
  EXPECT_EQ(run({"config", "keys", "--markdown"}).out, text.str());
}

TEST_F(Cli, DoctorReportsEveryCheckAndAnOutputThatCannotBe) {
  const nlohmann::json report = json({"doctor"});
  EXPECT_GE(report["checks"].size(), 8u);
  for (const nlohmann::json& check : report["checks"])
    for (const char* key : {"name", "status", "detail", "fix"})
      EXPECT_TRUE(check.contains(key)) << check;
  EXPECT_FALSE(exists("out"));
  write("file", "");
  const nlohmann::json sick = json({"doctor", "--out", "file/out"}, 1)["checks"];
  EXPECT_EQ(sick.back()["status"], "problem");
  EXPECT_NE(sick.back()["fix"], "");
}

TEST_F(Cli, BenchStepReportsSpeedBesideItsLimit) {
  const nlohmann::json rows =
      json({"bench", "step", "--preset", "tiny", "--batch", "2", "--steps", "2"})["rows"];
  ASSERT_EQ(rows.size(), 1u);
  for (const char* key : {"name", "value", "unit", "limit", "ratio", "tokens_per_s", "tflops",
                          "mfu", "step_s", "mem_peak"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  const Ran shorter =
      run({"bench", "step", "--preset", "tiny", "--batch", "2", "--steps", "1", "--model.seq=16"});
  EXPECT_TRUE(shorter.out.starts_with("tiny 2x16: ")) << shorter.out << shorter.err;
}

TEST_F(Cli, AnInterruptEndsACommandThatHasNothingToSave) {
  ASSERT_EQ(::mkfifo((dir_ / "pipe.txt").c_str(), 0600), 0);
  // Nobody writes to the pipe, so opening it stands still.
  Running running(command({"data", "tokenize", "pipe.txt", "--out", "x"}), settings());
  do running.kill(SIGINT);
  while (!running.ends_within(10));
  EXPECT_EQ(running.finish().code, 130);
}

}  // namespace
}  // namespace sextant
