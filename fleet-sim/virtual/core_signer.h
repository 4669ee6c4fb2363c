// The online keys of a gateway in this process: those of its data folder, behind the core's port.
#ifndef SIM_CORE_SIGNER_H
#define SIM_CORE_SIGNER_H

#include "base/error.h"
#include "ports/shared_verify.h"
#include "signing/signing.h"
#include "svc/signer.h"

struct sim_core_signer {
    struct signing_key *keys[GW_ONLINE_COUNT];
    struct gw_signer_port port;       // valid while the signer stays where it is
    struct sim_shared_verify *verify; // takes note of what is signed; NULL: nobody does
};

// Reads DIR/keys/{timestamp,snapshot,director}.key; `verify` is not set. NOT_FOUND, INVALID, IO,
// NOMEM.
BASE_NODISCARD enum base_status sim_core_signer_open(const char *dir, struct sim_core_signer *out,
                                                     struct base_error *error);
void sim_core_signer_close(struct sim_core_signer *signer);

#endif
