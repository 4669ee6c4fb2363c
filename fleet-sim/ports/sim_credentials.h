// Credentials of virtual devices: one file for a whole fleet, a record for each device.
//
// A run that enrols its devices must find their credentials again when it is started anew, for the
// gateway issues each only once. The file is mapped, so a credential is kept the moment it is put,
// whatever becomes of the process, and a million devices cost 72 MiB of pages the system may write
// out, no file each.
//
//   file   := "WSIMCRED", u8 version(2), 7 zeros, secret[32], record for each device of the fleet
//   record := text[64] behind which zeros follow, u64 device id (0: no credential)
//
// The secret is drawn when the file is made: what devices bring to their enrolment is made of it,
// the same in a run that is started anew. Version 1, which has none, is read and written as it is.
//
// Threads. Opened and closed by the coordinator; a device's record is read and written by the
// thread of its shard alone.
#ifndef SIM_CREDENTIALS_H
#define SIM_CREDENTIALS_H

#include "base/error.h"
#include "wire/enrolment.h"

#define SIM_CREDENTIALS_VERSION      2
#define SIM_CREDENTIALS_HEADER_BYTES 48u
#define SIM_CREDENTIALS_SECRET_BYTES 32u
#define SIM_CREDENTIAL_RECORD_BYTES  (WIRE_CREDENTIAL_MAX + 8u)

struct sim_credentials;

// Opens the file, or makes it (mode 0600), with room for `devices`. CORRUPT: it is none, or of
// another version; BUSY: another run has it; IO, NOMEM, FULL.
BASE_NODISCARD enum base_status sim_credentials_open(const char *path, uint32_t devices,
                                                     struct sim_credentials **out,
                                                     struct base_error *error);
// Such records in memory alone, none taken; the secret is made of `seed`, so that a run that is
// played again enrols with the same keys. For fleets that no other program meets. NOMEM.
BASE_NODISCARD enum base_status sim_credentials_in_memory(uint32_t devices, uint64_t seed,
                                                          struct sim_credentials **out,
                                                          struct base_error *error);
void sim_credentials_close(struct sim_credentials *credentials); // accepts NULL

// What the fleet's enrolment keys are made of, SIM_CREDENTIALS_SECRET_BYTES; NULL: a file of
// version
// 1. Valid until the file is closed.
const uint8_t *sim_credentials_secret(const struct sim_credentials *credentials);
// Whose the record of device number `device` is; 0: nobody's yet.
uint64_t sim_credentials_owner(const struct sim_credentials *credentials, uint32_t device);
// The credential of this device; empty: none, or what is there is no credential. Valid until the
// file is closed.
struct base_str sim_credentials_get(const struct sim_credentials *credentials, uint32_t device,
                                    uint64_t id);
// The record of this device is nobody's again.
void sim_credentials_drop(struct sim_credentials *credentials, uint32_t device);
// CONFLICT: the record is another device's; INVALID: no credential.
BASE_NODISCARD enum base_status sim_credentials_put(struct sim_credentials *credentials,
                                                    uint32_t device, uint64_t id,
                                                    struct base_str text);

#endif
