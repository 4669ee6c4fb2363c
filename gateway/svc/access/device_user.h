// Whose a device is: what an operator bound, never what the device says. It decides about exclusive
// files of users. Users are of one tenant: a binding is void once the device is another tenant's.
#ifndef GW_DEVICE_USER_H
#define GW_DEVICE_USER_H

#include "base/status.h"
#include "base/str.h"
#include "wire/trust/exclusive_files.h"

struct gw_core;
struct gw_store_txn;

// Writes the name and a NUL. NOT_FOUND: nobody's in this tenant; IO, CORRUPT. Any thread.
BASE_NODISCARD enum base_status gw_device_user_get(struct gw_core *core, uint16_t tenant,
                                                   uint64_t device_id,
                                                   char out[WIRE_SUBJECT_MAX + 1]);
// Durable on return. An empty name unbinds. INVALID: no name of a user. Control thread.
BASE_NODISCARD enum base_status gw_device_user_set(struct gw_core *core, uint16_t tenant,
                                                   uint64_t device_id, struct base_str user);
// Within apply of another operation: whose it was is forgotten.
BASE_NODISCARD enum base_status gw_device_user_forget(struct gw_store_txn *txn, uint64_t device_id);

#endif
