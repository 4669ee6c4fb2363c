// The gateway's own keys, for timestamps, snapshots and the director's answers: files in
// DIR/keys, made at the first start, readable by their owner alone. On OpenSSL.
#ifndef GW_ONLINE_KEYS_H
#define GW_ONLINE_KEYS_H

#include "base/error.h"
#include "svc/signer.h"

struct gw_online_keys;

// Loads DIR/keys/{timestamp,snapshot,director}.key, or draws and writes them. INVALID: a file was
// cut short or zeroed, others may read it, or it is no regular file; `error` names it and says what
// to do. IO, NOMEM.
BASE_NODISCARD enum base_status
gw_online_keys_open(const char *dir, struct gw_online_keys **out_keys, struct base_error *error);
// Would the files that are there be loaded? Nothing is made. INVALID, as above.
BASE_NODISCARD enum base_status gw_online_keys_check(const char *dir, struct base_error *error);
void gw_online_keys_free(struct gw_online_keys *keys); // accepts NULL
// Valid as long as the keys.
const struct gw_signer_port *gw_online_keys_port(const struct gw_online_keys *keys);

#endif
