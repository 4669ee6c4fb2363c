// The delta port on zstd: picks the decoder by the stream's magic, and says which codings there is
// memory for. Made by posix_port.c; called by core/pull/device_delta.c, on the runtime's thread,
// when a pull asks for a file as the difference to the one that runs. Stateless but for its
// decoders, which have files of their own (delta_pieces.c, delta_dcz.c); a coding is offered only
// where its decoder's memory is within the port's memory_max.
#include "delta_decoder.h"

#include "wire/delta_piece.h"

#include <string.h>

static uint32_t delta_codings(const struct dev_delta_port *port, uint64_t old_bytes,
                              uint64_t new_bytes)
{
    uint32_t codings = 0;
    codings |= delta_dcz_memory(old_bytes, new_bytes) <= port->memory_max ? DEV_DELTA_DCZ : 0;
    codings |= delta_pieces_memory() <= port->memory_max ? DEV_DELTA_PIECES : 0;
    return codings;
}

static enum base_status delta_begin(const struct dev_delta_input *input, void **out_decoder)
{
    struct delta_decoder *decoder = NULL;
    bool pieces = input->size > WIRE_DELTA_MAGIC_BYTES &&
                  memcmp(input->bytes, WIRE_DELTA_MAGIC, WIRE_DELTA_MAGIC_BYTES) == 0;
    BASE_TRY(pieces ? delta_pieces_begin(input, &decoder) : delta_dcz_begin(input, &decoder));
    *out_decoder = decoder;
    return BASE_OK;
}

static enum base_status delta_next(void *decoder, const uint8_t **out_bytes, size_t *out_size)
{
    struct delta_decoder *self = decoder;
    return self->next(self, out_bytes, out_size);
}

static void delta_end(void *decoder)
{
    struct delta_decoder *self = decoder;
    self->end(self);
}

struct dev_delta_port dev_delta_zstd(uint64_t memory_max)
{
    return (struct dev_delta_port){
        .memory_max = memory_max,
        .codings = delta_codings,
        .begin = delta_begin,
        .next = delta_next,
        .end = delta_end,
    };
}
