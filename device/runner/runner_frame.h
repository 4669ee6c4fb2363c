// What the agent and a task's process say to each other: frames on one socket, and where things lie
// in the sealed memory that goes with the first frame.
//
// A task's process (device/runner/task_runner.c) does one run and ends. The agent sends JOB with
// one or two sealed memory files (runner_job.h) attached; the process maps them, puts up its wall
// (runner_wall.h), answers STARTED, may ask QUERY (answered by ROWS), INFER (by ANSWER) and LOOK
// (by SEEN), and says END. REFUSED comes in place of STARTED where the wall cannot be put up; the
// agent then runs nothing there.
//
//   frame   := u32 kind, u32 size of the body, body
//   JOB     := u64 memory_bytes, u64 job_bytes, u64 models_bytes, u32 time_ms; fds: job, [models]
//   STARTED := nothing
//   REFUSED := text of why
//   QUERY   := u8 every_key, u8 size, feature, u8 size, key, u64 from_ms, u64 to_ms, u32 newest
//              (no feature and no key: the task's store, one row)
//   ROWS    := u32 status (negative, as its two's complement), rows
//   row     := u32 key_size, u32 value_size, u64 time_ms, key, value
//   INFER   := u8 size, model, call (wire/cloud/tensor_call.h)
//   ANSWER  := u8 why, u8 size, detail, answer (wire/cloud/tensor_call.h; nothing unless ANSWERED)
//   LOOK    := u8 size, model
//   SEEN    := u8 why, u32 expected_us
//   END     := runner_end.h
//
// Where a version has models, reading and planning them is most of a run. A process that gets
// TEMPLATE instead of JOB reads them, behind a wall of its own, and never runs a script: each FORK
// makes one process of it, which has the models and goes on as if it had been started for one run.
//
//   TEMPLATE := as JOB; the job has no modules
//   FORK     := nothing; fds: the channel of the new process
//   FORKED   := u32 process id
//
// Numbers are little-endian. The agent takes every byte from the process for an attacker's
// (posix/run/posix_child_parse.h).
#ifndef DEV_RUNNER_FRAME_H
#define DEV_RUNNER_FRAME_H

#include "vm/vm.h"
#include "wire/store/store_image.h"

#define DEV_RUNNER_FD           3 // of the socket, in the process
#define DEV_RUNNER_HEAD_BYTES   8
#define DEV_RUNNER_JOB_BYTES    28  // body of JOB
#define DEV_RUNNER_FORKED_BYTES 4   // body of FORKED
#define DEV_RUNNER_TEXT_MAX     160 // of REFUSED
#define DEV_RUNNER_QUERY_MAX    (24 + DEV_VM_FEATURE_NAME_MAX + DEV_VM_FEATURE_KEY_MAX)
#define DEV_RUNNER_ROW_BYTES    16 // a row without key and value
#define DEV_RUNNER_ROWS_MAX     (4 + DEV_RUNNER_ROW_BYTES + WIRE_STORE_IMAGE_MAX)
#define DEV_RUNNER_END_MAX                                                                         \
    (DEV_VM_RESULT_MAX + DEV_VM_EFFECT_BYTES + WIRE_STORE_IMAGE_MAX + 8 * 1024)
#define DEV_RUNNER_INFER_MAX  (1 + WIRE_TENSOR_MODEL_MAX + WIRE_TENSOR_CALL_MAX) // body of INFER
#define DEV_RUNNER_ANSWER_MAX (2 + DEV_VM_MESSAGE_MAX + WIRE_TENSOR_ANSWER_MAX)  // body of ANSWER
#define DEV_RUNNER_LOOK_MAX   (1 + WIRE_TENSOR_MODEL_MAX)                        // body of LOOK
#define DEV_RUNNER_SEEN_BYTES 5
#define DEV_RUNNER_FRAME_MAX  (1028 * 1024) // more than any body

enum dev_runner_kind {
    DEV_RUNNER_JOB = 1,
    DEV_RUNNER_STARTED,
    DEV_RUNNER_REFUSED,
    DEV_RUNNER_QUERY,
    DEV_RUNNER_ROWS,
    DEV_RUNNER_END,
    DEV_RUNNER_TEMPLATE,
    DEV_RUNNER_FORK,
    DEV_RUNNER_FORKED,
    DEV_RUNNER_INFER,
    DEV_RUNNER_ANSWER,
    DEV_RUNNER_LOOK,
    DEV_RUNNER_SEEN,
};

// The most bytes a body of that kind may have; false: there is no such kind.
bool dev_runner_frame_max(uint32_t kind, size_t *out_max);
void dev_runner_head_write(uint8_t out[DEV_RUNNER_HEAD_BYTES], uint32_t kind, size_t size);
// INVALID: no such kind; TOO_LARGE: over what it may have.
BASE_NODISCARD enum base_status dev_runner_head_parse(const uint8_t bytes[DEV_RUNNER_HEAD_BYTES],
                                                      uint32_t *out_kind, size_t *out_size);

// What of JOB, or TEMPLATE, the process needs before its wall is up: it bounds the process.
struct dev_runner_bounds {
    uint64_t memory_bytes; // of its whole address space
    uint64_t job_bytes;
    uint64_t models_bytes; // 0: no second file
    uint32_t time_ms;      // of the run
};
void dev_runner_bounds_write(uint8_t out[DEV_RUNNER_JOB_BYTES],
                             const struct dev_runner_bounds *bounds);
BASE_NODISCARD enum base_status dev_runner_bounds_parse(const uint8_t *bytes, size_t size,
                                                        struct dev_runner_bounds *out);

#endif
