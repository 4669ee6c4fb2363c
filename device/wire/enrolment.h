// Enrolment: the gateway's answer to POST /v1/enroll. The device keeps it and shows the credential
// (header `walle-credential`) with every request from then on.
//
//   enrolment := u8 version(1), u64 device_id, text8 credential
#ifndef WIRE_ENROLMENT_H
#define WIRE_ENROLMENT_H

#include "base/cursor.h"
#include "base/str.h"

BASE_C_BEGIN

#define WIRE_ENROLMENT_VERSION   1
#define WIRE_CREDENTIAL_MAX      64u // printable ASCII without blanks
#define WIRE_ENROLMENT_BYTES_MAX (10u + WIRE_CREDENTIAL_MAX)

struct wire_enrolment {
    uint64_t device_id;
    struct base_str credential; // borrowed
};

// 1 to WIRE_CREDENTIAL_MAX printable characters without blanks?
bool wire_credential_ok(struct base_str text);
BASE_NODISCARD enum base_status wire_enrolment_encode(const struct wire_enrolment *enrolment,
                                                      uint8_t *out, size_t capacity,
                                                      size_t *out_size);
BASE_NODISCARD enum base_status wire_enrolment_parse(const uint8_t *bytes, size_t size,
                                                     struct wire_enrolment *out);

BASE_C_END

#endif
