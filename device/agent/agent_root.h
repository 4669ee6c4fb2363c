// The root that a device is born with (--root FILE), and that it stays the same; or the key that it
// trusts instead (--trust).
//
// A device believes the chain that begins with its first root. Started with another one, of another
// gateway, it would silently keep to the old chain, or begin a new one; so the folder remembers
// which it was, in DIR/root.born: its version and SHA-256, and a check of both: damage is no other
// root, and is written anew.
#ifndef AGENT_ROOT_H
#define AGENT_ROOT_H

#include "base/error.h"
#include "base/log.h"
#include "posix/posix_port.h"
#include "wire/trust/root.h"

// The root in a file. INVALID: there is none, IO.
BASE_NODISCARD enum base_status agent_root_read(const char *path, uint8_t out[WIRE_META_BYTES_MAX],
                                                size_t *out_size, struct base_error *error);
// Says which root is in use (none: there is nothing to say), and remembers it in the device's
// folder, which is made. One of another version may be a newer one of the same chain: it is said
// that it changed. False, and the log says why: the device was born with another of this version,
// or the folder cannot be read or written.
bool agent_root_keep(const struct posix_options *options, const struct base_log *log);

// The public key that --trust names: its 64 hex digits, or a file that holds them. INVALID:
// neither, `error` says why.
BASE_NODISCARD enum base_status agent_key_read(const char *text, uint8_t out[WIRE_PUBLIC_KEY_BYTES],
                                               struct base_error *error);

#endif
