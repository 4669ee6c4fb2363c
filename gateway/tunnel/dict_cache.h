// Dictionaries ready for decompression, of one worker: those used last, made at their first use
// from where the gateway keeps released ones (svc/tunnel_dicts.h). Reading one is a copy of at most
// WIRE_TUNNEL_DICT_BYTES_MAX out of the store's map: short enough for a worker.
//
// What is not known is asked for each time: a version that brings it may be pushed at any moment.
#ifndef GW_DICT_CACHE_H
#define GW_DICT_CACHE_H

#include "svc/tunnel_dicts.h"
#include "tunnel/tunnel_zstd.h"

#define GW_DICT_CACHE_MAX 8 // dictionaries a worker holds ready, about 60 KB each

struct gw_dict_cache;

// `port` must outlive it; load NULL: there are none. NOMEM.
BASE_NODISCARD enum base_status gw_dict_cache_new(const struct gw_tunnel_dict_port *port,
                                                  struct gw_dict_cache **out);
void gw_dict_cache_free(struct gw_dict_cache *cache); // accepts NULL
// Borrowed until the next call. NOT_FOUND; CORRUPT: it is no dictionary; IO, NOMEM.
BASE_NODISCARD enum base_status gw_dict_cache_get(struct gw_dict_cache *cache, uint32_t id,
                                                  const struct gw_zstd_dict **out);
// Which of a device's dictionaries it should use: the known one that came last; 0: none.
uint32_t gw_dict_cache_choose(const struct gw_dict_cache *cache, const uint32_t *ids,
                              uint32_t count);

#endif
