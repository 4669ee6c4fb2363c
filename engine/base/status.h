// Status codes of the whole project.
//
// Every function that can fail returns `enum base_status` and is BASE_NODISCARD. 0 is success;
// negatives have a class by range, so that callers can decide on the class without listing codes:
//
//   -1xx  the caller's data is at fault     (answer: 4xx, reject the file, quarantine the record)
//   -2xx  the data is not to be trusted     (answer: refuse, report the code, keep the previous
//   state) -3xx  a resource ran out                (answer: shed load, try later) -4xx  the
//   environment failed            (answer: retry with back-off) -9xx  a bug of ours (answer: fix
//   it)
//
// Libraries return codes and never log above debug, never exit, never abort on input or on want of
// memory.
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdbool.h>

// Around the declarations of a public header, so that C++ may include it.
#ifdef __cplusplus
#define BASE_C_BEGIN extern "C" {
#define BASE_C_END   }
#else
#define BASE_C_BEGIN
#define BASE_C_END
#endif

BASE_C_BEGIN

#define BASE_NODISCARD __attribute__((warn_unused_result))
#define BASE_PRINTF(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))

// X(name, value, text)
#define BASE_STATUS_MAP(X)                                                                         \
    X(OK, 0, "ok")                                                                                 \
    X(INVALID, -100, "invalid value")                                                              \
    X(TRUNCATED, -101, "input ends too early")                                                     \
    X(TOO_LARGE, -102, "over a named limit")                                                       \
    X(UNSUPPORTED, -103, "version or feature not supported")                                       \
    X(NOT_FOUND, -104, "no such thing")                                                            \
    X(EXISTS, -105, "already there")                                                               \
    X(CONFLICT, -106, "not in this state")                                                         \
    X(OVERFLOW, -107, "number does not fit")                                                       \
    X(SIGNATURE, -200, "signature does not verify")                                                \
    X(HASH, -201, "content does not match its hash")                                               \
    X(ROLLBACK, -202, "release counter goes backwards")                                            \
    X(STAGE, -203, "device is outside the signed stage")                                           \
    X(TARGET, -204, "not meant for this device")                                                   \
    X(EXPIRED, -205, "no longer valid")                                                            \
    X(DENIED, -206, "not permitted")                                                               \
    X(THRESHOLD, -207, "too few of the role's keys signed")                                        \
    X(ROOT, -208, "not the successor of the trusted root")                                         \
    X(FRESHNESS, -209, "answer is not to this question")                                           \
    X(DIRECTOR, -210, "release and director disagree")                                             \
    X(FROZEN, -211, "signed metadata ran out")                                                     \
    X(MIXED, -212, "not in the current snapshot")                                                  \
    X(KILLED, -213, "version is on the kill list")                                                 \
    X(LEASE, -214, "lease ran out")                                                                \
    X(NOMEM, -300, "out of memory")                                                                \
    X(FULL, -301, "storage full")                                                                  \
    X(LIMIT, -302, "a bounded queue or table is full")                                             \
    X(BUSY, -303, "busy, try later")                                                               \
    X(IO, -400, "input/output error")                                                              \
    X(CLOSED, -401, "connection closed")                                                           \
    X(TIMEOUT, -402, "deadline passed")                                                            \
    X(CORRUPT, -403, "stored data is damaged")                                                     \
    X(BUG, -900, "internal error")

enum base_status {
#define BASE_STATUS_ENUM(name, value, text) BASE_ERR_##name = value,
    BASE_STATUS_MAP(BASE_STATUS_ENUM)
#undef BASE_STATUS_ENUM
        BASE_OK = 0
};

// Static text of a status, never NULL ("unknown status" for others).
const char *base_status_text(enum base_status status);
// Static upper-case name of a status without prefix ("INVALID"), never NULL.
const char *base_status_name(enum base_status status);

static inline bool base_status_is_input(enum base_status status)
{
    return status <= -100 && status > -200;
}
static inline bool base_status_is_trust(enum base_status status)
{
    return status <= -200 && status > -300;
}
static inline bool base_status_is_resource(enum base_status status)
{
    return status <= -300 && status > -400;
}
static inline bool base_status_is_environment(enum base_status status)
{
    return status <= -400 && status > -500;
}

// Returns from the calling function when `expr` is not BASE_OK.
#define BASE_TRY(expr)                                                                             \
    do {                                                                                           \
        enum base_status base_try_status_ = (expr);                                                \
        if (base_try_status_ != BASE_OK) {                                                         \
            return base_try_status_;                                                               \
        }                                                                                          \
    } while (0)

BASE_C_END

#endif
