// Enrolment of this device: one request to the gateway, and its answer kept in the device's folder.
//
// DIR/credential holds the answer as it came (wire/enrolment.h), mode 0600, replaced atomically.
// Until it does, DIR/enrolment.key holds the key that each try brings: an answer that got lost is
// given once more.
#ifndef POSIX_ENROLL_H
#define POSIX_ENROLL_H

#include "posix/posix_port.h"
#include "wire/enrolment.h"

BASE_C_BEGIN

struct posix_credential {
    uint64_t device_id;
    char text[WIRE_CREDENTIAL_MAX + 1];
};

#define POSIX_CREDENTIAL_ASIDE "credential.damaged"

// NOT_FOUND: the device has not enrolled; CORRUPT: the file is empty, cut short or something
// else's; INVALID: it is no regular file; IO. `error` names the file and what is wrong with it.
BASE_NODISCARD enum base_status posix_credential_load(const char *dir, struct posix_credential *out,
                                                      struct base_error *error);
// Renames a credential that is damaged to POSIX_CREDENTIAL_ASIDE, in place of an older one. IO.
BASE_NODISCARD enum base_status posix_credential_set_aside(const char *dir,
                                                           struct base_error *error);
// Sends the token and waits, running `base` meanwhile; keeps the answer in options->dir, which is
// made when absent. The device brings options->config.device_id unless that is 0. DENIED: the
// gateway refuses (`error` has its status); INVALID: the answer, or what stands in the place of the
// key; TIMEOUT, CLOSED, IO: try again later.
BASE_NODISCARD enum base_status posix_enroll(struct event_base *base,
                                             const struct posix_options *options,
                                             struct base_str token, struct posix_credential *out,
                                             struct base_error *error);
// Who this device is: the credential in options->dir or, where there is none, of posix_enroll with
// the token. INVALID: it has to enrol and the token is empty; else as of the two.
BASE_NODISCARD enum base_status posix_enrolled(struct event_base *base,
                                               const struct posix_options *options,
                                               struct base_str token, struct posix_credential *out,
                                               struct base_error *error);

BASE_C_END

#endif
