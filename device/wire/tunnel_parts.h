// What the frames of the tunnel are put together from. For the files of this folder only.
#ifndef WIRE_TUNNEL_PARTS_H
#define WIRE_TUNNEL_PARTS_H

#include "wire/tunnel_frame.h"

// A frame from its head on; _end puts the size into the head. TOO_LARGE, or what failed the writer.
void wire_tunnel_begin(struct base_writer *writer, enum wire_tunnel_type type, uint8_t *out,
                       size_t capacity);
void wire_tunnel_patch(struct base_writer *writer, size_t payload); // the size alone
BASE_NODISCARD enum base_status wire_tunnel_end(struct base_writer *writer, size_t *out_size);

// Values over their limit fail the cursor with INVALID.
void wire_tunnel_write_class(struct base_writer *writer, uint8_t class_id);
uint8_t wire_tunnel_read_class(struct base_reader *reader);
void wire_tunnel_write_max(struct base_writer *writer, uint64_t value, uint64_t max); // varint

#endif
