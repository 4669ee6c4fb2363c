// Names of content and of things on the wire.
//
// Content is named by SHA-256. A version is its manifest, so a version's name is the manifest's
// SHA-256; where 64 bits are enough (profiles, counters) its first 8 bytes, little-endian, are the
// version id. A task id is base_hash64 of the task's name. A device id is 64 bits, 16 lower-case
// hex digits in text.
#ifndef WIRE_DIGEST_H
#define WIRE_DIGEST_H

#include "base/status.h"
#include "base/str.h"

BASE_C_BEGIN

#define WIRE_SHA256_BYTES     32
#define WIRE_SHA256_HEX       64
#define WIRE_DEVICE_HEX       16
#define WIRE_TASK_NAME_MAX    64 // characters; see wire_task_name_fault
#define WIRE_SIGNATURE_BYTES  64 // Ed25519 (RFC 8032)
#define WIRE_PUBLIC_KEY_BYTES 32

struct wire_sha256 {
    uint8_t bytes[WIRE_SHA256_BYTES];
};

bool wire_sha256_equal(const struct wire_sha256 *a, const struct wire_sha256 *b);
bool wire_sha256_is_zero(const struct wire_sha256 *a);
uint64_t wire_version_id(const struct wire_sha256 *manifest);
// Writes WIRE_SHA256_HEX characters and a NUL.
void wire_sha256_hex(const struct wire_sha256 *digest, char out[WIRE_SHA256_HEX + 1]);
BASE_NODISCARD enum base_status wire_sha256_parse(struct base_str hex, struct wire_sha256 *out);

// What is wrong with a task's name, as in "is not 1 to 64 characters long"; NULL: nothing. It is
// parts between slashes of a-z 0-9 . _ -, begins with a letter or digit, and no part of it is
// empty, ".", ".." or ".git": names end up in paths, of folders and of the API. The text is static.
const char *wire_task_name_fault(struct base_str name);
bool wire_task_name_ok(struct base_str name);
uint64_t wire_task_id(struct base_str name);
// A version of a task that runs as a shadow is spoken of under an id of its own, as if it were
// another task. The same function leads back.
uint64_t wire_shadow_task_id(uint64_t task_id);

void wire_device_hex(uint64_t device_id, char out[WIRE_DEVICE_HEX + 1]);
BASE_NODISCARD enum base_status wire_device_parse(struct base_str hex, uint64_t *out_device_id);
// The same of the id that a request says is its own: 0 is no device's.
#define WIRE_DEVICE_OWN_EXPECTED "16 hex digits expected, not all 0"
BASE_NODISCARD enum base_status wire_device_parse_own(struct base_str hex, uint64_t *out_device_id);

BASE_C_END

#endif
