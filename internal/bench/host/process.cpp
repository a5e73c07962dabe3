#include "process.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", start), text.size());
    if (end > start) {
      words.push_back(text.substr(start, end - start));
    }
    start = end + 1;
  }
  return words;
}

void read_lines(std::FILE* file, const std::function<void(const std::vector<std::string>&)>& line) {
  char* text = nullptr;
  std::size_t capacity = 0;
  ssize_t length = 0;
  while ((length = getline(&text, &capacity, file)) >= 0) {
    line(split(std::string(text, static_cast<std::size_t>(length))));
  }
  std::free(text);
}

}  // namespace

Status run_self(
    const std::vector<std::string>& arguments, const std::function<void(const std::vector<std::string>&)>& line) {
  const char* self = "/proc/self/exe";
  std::vector<char*> argv{const_cast<char*>(self)};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Status::system("pipe");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  errno = posix_spawn(&child, self, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (errno != 0) {
    const Status status = Status::system(self);
    close(ends[0]);
    return status;
  }
  if (std::FILE* file = fdopen(ends[0], "r")) {
    read_lines(file, line);
    std::fclose(file);
  } else {
    close(ends[0]);
  }
  int result = 0;
  while (waitpid(child, &result, 0) < 0) {
    if (errno != EINTR) {
      return Status::system("wait");
    }
  }
  if (result != 0) {
    return Status::error("the process that ran " + arguments.front() + " failed");
  }
  return Status();
}
