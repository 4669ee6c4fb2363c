// Enrolment of this device: one request to the gateway, and its answer kept in the device's folder.
//
// DIR/credential holds the answer as it came (wire/enrolment.h), mode 0600, replaced atomically.
#ifndef POSIX_ENROLL_H
#define POSIX_ENROLL_H

#include "posix/posix_port.h"
#include "wire/enrolment.h"

struct posix_credential {
    uint64_t device_id;
    char text[WIRE_CREDENTIAL_MAX + 1];
};

// NOT_FOUND: the device has not enrolled; CORRUPT, IO.
BASE_NODISCARD enum base_status posix_credential_load(const char *dir, struct posix_credential *out,
                                                      struct base_error *error);
// Sends the token and waits, running `base` meanwhile; keeps the answer in options->dir, which is
// made when absent. The device brings options->config.device_id unless that is 0. DENIED: the
// gateway refuses (`error` has its status); TIMEOUT, CLOSED, IO: try again later.
BASE_NODISCARD enum base_status posix_enroll(struct event_base *base,
                                             const struct posix_options *options,
                                             struct base_str token, struct posix_credential *out,
                                             struct base_error *error);

#endif
