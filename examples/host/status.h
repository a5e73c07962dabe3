// An error of this program: a message for its user.
#pragma once

#include <string>
#include <utility>

#include <xnnpack.h>
#include <xpwc.hpp>

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(const xpwc::Status& status)
      : ok_(status.ok()), message_(ok_ ? std::string() : std::string(status.name()) + ": " + status.message()) {}

  static Status error(std::string message) {
    Status status;
    status.ok_ = false;
    status.message_ = std::move(message);
    return status;
  }

  // The result of an operation of XNNPACK.
  static Status xnnpack(const char* operation, xnn_status code) {
    if (code == xnn_status_success) {
      return Status();
    }
    return error(std::string(operation) + ": xnn_status " + std::to_string(static_cast<int>(code)));
  }

  // errno's words about the subject, a path for instance.
  static Status system(const std::string& subject);

  bool ok() const { return ok_; }
  const std::string& message() const { return message_; }

 private:
  bool ok_ = true;
  std::string message_;
};

// Hands a failure on to the caller.
#define RETURN_IF_ERROR(expression)                    \
  do {                                                 \
    if (Status status_ = (expression); !status_.ok()) { \
      return status_;                                  \
    }                                                  \
  } while (false)
