// The record of a device on disk, in two files that are written in turn: the newest one, and the
// one before it, which is there when the newest is damaged. Neither is ever mapped.
//
//   file := "WLS1", u32 size, u64 generation, u64 seal of these, bytes, u64 seal of the bytes
//           (base/record_seal.h, under the generation)
//
// Generation n is state/odd or state/even. A new one is written beside them, flushed, and renamed
// over the older: a kill leaves two whole ones, so what is not whole was damaged, and is set aside
// as state.damaged. Used by posix_storage.c on the runtime's thread.
#ifndef POSIX_STATE_H
#define POSIX_STATE_H

#include "base/log.h"
#include "device/device.h"

#define POSIX_STATE_HEAD_BYTES 24u
#define POSIX_STATE_FILE_MAX   (POSIX_STATE_HEAD_BYTES + DEV_STATE_BYTES_MAX + 8u) // of one record

struct posix_state {
    int device; // folder of the device; the caller's
    int folder; // DIR/state; -1: not open
    const struct base_log *log;
    uint64_t generation; // of the newest whole record; 0: none
    bool whole[2];       // is generation & 1 there?
    bool doubt;          // there was a newer one, as far as one can tell
    bool old_form;       // the record of an earlier release is there (posix_state_old.h)
    char dir[4096];
    uint8_t bytes[POSIX_STATE_FILE_MAX];
};

// `device` is the open folder DIR. Sets aside what is damaged, and says so. IO, NOMEM, TOO_LARGE.
BASE_NODISCARD enum base_status posix_state_open(struct posix_state *state, int device,
                                                 const char *dir, const struct base_log *log);
void posix_state_close(struct posix_state *state);
// As the storage port's state_load and state_before, and state_save.
BASE_NODISCARD enum base_status posix_state_load(struct posix_state *state, bool before,
                                                 uint8_t *out, size_t capacity, size_t *out_size);
BASE_NODISCARD enum base_status posix_state_save(struct posix_state *state, const uint8_t *bytes,
                                                 size_t size);

// The newest whole record of the folder `device` as it lies, also while an agent runs on it:
// nothing is locked, made or set aside. NOT_FOUND: there is none; CORRUPT: none that is whole;
// UNSUPPORTED: it is one of an earlier release; TOO_LARGE, IO.
BASE_NODISCARD enum base_status posix_state_peek(int device, uint8_t *out, size_t capacity,
                                                 size_t *out_size, uint64_t *out_generation);

#endif
