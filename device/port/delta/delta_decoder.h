// What the decoders of the delta port share: a decoder begins with its two calls.
#ifndef DELTA_DECODER_H
#define DELTA_DECODER_H

#include "device/port.h"

#define DELTA_FRAME_BYTES (512u * 1024) // of zstd beside its window

struct delta_decoder {
    // As in struct dev_delta_port.
    enum base_status (*next)(struct delta_decoder *decoder, const uint8_t **out_bytes,
                             size_t *out_size);
    void (*end)(struct delta_decoder *decoder);
};

// The largest window RFC 9842 lets a sender of dcz use.
uint64_t delta_dcz_window_max(uint64_t old_bytes);
// Bytes from the heap, at most.
uint64_t delta_dcz_memory(uint64_t old_bytes, uint64_t new_bytes);
uint64_t delta_pieces_memory(void);
// Each begins with its magic: INVALID otherwise. HASH, NOMEM; LIMIT: needs more than memory_max.
BASE_NODISCARD enum base_status delta_dcz_begin(const struct dev_delta_input *input,
                                                struct delta_decoder **out);
BASE_NODISCARD enum base_status delta_pieces_begin(const struct dev_delta_input *input,
                                                   struct delta_decoder **out);

#endif
