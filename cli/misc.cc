// version and completion.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/str_format.h"
#include "cli/common_options.h"

#ifndef PTARMIGAN_VERSION
#error "the build sets PTARMIGAN_VERSION"
#endif

namespace ptarmigan::cli {
namespace {

// Every verb with its long options, from the same table that parses them.
struct VerbWords {
  std::string name;
  std::string description;
  std::vector<std::string> options;
};

std::vector<VerbWords> ListVerbs(const CLI::App& app) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    VerbWords words{verb->get_name(), verb->get_description(), {}};
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) words.options.push_back("--" + name);
      for (const std::string& name : option->get_snames()) words.options.push_back("-" + name);
    }
    verbs.push_back(std::move(words));
  }
  return verbs;
}

std::string Join(const std::vector<std::string>& words, std::string_view separator) {
  std::string joined;
  for (const std::string& word : words) {
    if (!joined.empty()) joined += separator;
    joined += word;
  }
  return joined;
}

std::string BashCompletion(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  std::string cases;
  for (const VerbWords& verb : verbs) {
    names.push_back(verb.name);
    cases += StrFormat("    {}) words=\"{}\" ;;\n", verb.name, Join(verb.options, " "));
  }
  return StrFormat(R"(_ptarmigan() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{}" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _ptarmigan ptarmigan
)",
                   Join(names, " "), cases);
}

std::string ZshCompletion(const std::vector<VerbWords>& verbs) {
  std::string described;
  std::string cases;
  for (const VerbWords& verb : verbs) {
    described += StrFormat("    '{}:{}'\n", verb.name, verb.description);
    cases += StrFormat("    {}) compadd -- {} ;;\n", verb.name, Join(verb.options, " "));
  }
  return StrFormat(R"(#compdef ptarmigan
_ptarmigan() {{
  local -a verbs=(
{}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  case "$words[2]" in
{}  esac
  _files
}}
_ptarmigan "$@"
)",
                   described, cases);
}

std::string FishCompletion(const std::vector<VerbWords>& verbs) {
  std::string text;
  for (const VerbWords& verb : verbs) {
    text += StrFormat("complete -c ptarmigan -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                      verb.description);
    for (const std::string& option : verb.options) {
      const bool is_long = option.starts_with("--");
      text += StrFormat("complete -c ptarmigan -n '__fish_seen_subcommand_from {}' -{} {}\n",
                        verb.name, is_long ? 'l' : 's', option.substr(is_long ? 2 : 1));
    }
  }
  return text;
}

}  // namespace

void AddVersion(CLI::App* app, VerbFunction* chosen) {
  CLI::App* verb = app->add_subcommand("version", "Print the version");
  verb->callback([chosen] {
    *chosen = [] {
      const Status status = WriteStandardOutput("ptarmigan " PTARMIGAN_VERSION "\n");
      return status ? kExitDone : Fail(status.error());
    };
  });
}

void AddCompletion(CLI::App* app, VerbFunction* chosen) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = app->add_subcommand("completion", "Print a completion script for a shell");
  verb->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([app, shell, chosen] {
    const std::vector<VerbWords> verbs = ListVerbs(*app);
    std::string text;
    if (*shell == "bash") text = BashCompletion(verbs);
    if (*shell == "zsh") text = ZshCompletion(verbs);
    if (*shell == "fish") text = FishCompletion(verbs);
    *chosen = [text] {
      const Status status = WriteStandardOutput(text);
      return status ? kExitDone : Fail(status.error());
    };
  });
}

}  // namespace ptarmigan::cli
