// LOG(WARNING) << "words"; and RECORD_FUNCTION.
#pragma once

#include "core.h"

namespace aten_stable {
inline namespace ATEN_STABLE_VERSION {
enum class Severity { INFO, WARNING, ERROR, FATAL };

// A line on stderr; of INFO, as in torch, nothing is said, and FATAL throws.
class LogLine {
 public:
  LogLine(Severity severity, const char* file, int line) : severity_(severity) {
    words_ << '[' << "IWEF"[static_cast<int>(severity)] << ' ' << file << ':' << line << "] ";
  }
  ~LogLine() noexcept(false) {
    if (severity_ == Severity::FATAL) throw c10::Error(words_.str());
    if (severity_ != Severity::INFO) std::cerr << words_.str() << std::endl;
  }
  std::ostream& stream() { return words_; }

 private:
  Severity severity_;
  std::ostringstream words_;
};

// A range in torch's profiler, until its end. It shows no inputs.
class Recorded {
 public:
  explicit Recorded(const char* name) {
    TORCH_ERROR_CODE_CHECK(aoti_record_function_start(name, nullptr, nullptr, 0, &guard_));
  }
  ~Recorded() { aoti_record_function_end(guard_); }
  Recorded(const Recorded&) = delete;

 private:
  AtenRecordFunctionHandle guard_ = nullptr;
};
}  // namespace ATEN_STABLE_VERSION
}  // namespace aten_stable

#define LOG(severity) ::aten_stable::LogLine(::aten_stable::Severity::severity, __FILE__, __LINE__).stream()
#define RECORD_FUNCTION(name, ...) const ::aten_stable::Recorded aten_stable_recorded(name)
#define RECORD_USER_SCOPE(name) RECORD_FUNCTION(name)
