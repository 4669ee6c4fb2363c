// The tunnel's compression on zstd: the codec port of device/tunnel/tunnel.h. Every batch is one
// frame of its own, so a batch can be sent again, alone, at any time.
//
// Memory is bounded whatever comes: one compression context, whose window is at most
// DEV_CODEC_WINDOW_LOG, and at most DEV_CODEC_READY_MAX digested dictionaries. Of the others the
// bytes alone are kept; which are digested follows use. (Figures: docs/PIPELINE.md, "Limits".)
//
// Belongs to the runtime's thread. Dictionaries are those of the device's active tasks: the owner
// sets them when the set of active versions changes (dev_codec_dicts_begin, _add of each).
#ifndef DEV_CODEC_ZSTD_H
#define DEV_CODEC_ZSTD_H

#include "tunnel/tunnel.h"
#include "wire/tunnel_dict.h"

#define DEV_CODEC_LEVEL      3 // 1 on slow devices
#define DEV_CODEC_LEVEL_MAX  9
#define DEV_CODEC_WINDOW_LOG 17 // 128 KiB
#define DEV_CODEC_READY_MAX  2  // dictionaries ready for use at once

struct dev_codec;

// `level` 0 takes DEV_CODEC_LEVEL. INVALID, NOMEM.
BASE_NODISCARD enum base_status dev_codec_new(int level, struct dev_codec **out_codec);
void dev_codec_free(struct dev_codec *codec); // accepts NULL
struct dev_tunnel_codec dev_codec_port(struct dev_codec *codec);

// Forgets all dictionaries; those that are added again keep what was prepared for them.
void dev_codec_dicts_begin(struct dev_codec *codec);
// Copies a dictionary; the last added counts as the newest. OK also when it is there. INVALID: not
// a dictionary, or `digest` (of the file, checked when it was downloaded) makes no id. LIMIT: there
// are WIRE_TUNNEL_DICTS_MAX. NOMEM.
BASE_NODISCARD enum base_status dev_codec_dict_add(struct dev_codec *codec,
                                                   const struct wire_sha256 *digest,
                                                   const uint8_t *bytes, size_t size);
// What zstd holds for us now, dictionaries included.
size_t dev_codec_memory(const struct dev_codec *codec);

#endif
