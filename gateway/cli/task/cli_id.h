// Ids of rollouts, devices and tokens as people type them: whole, or as far as they are unique.
#ifndef CLI_ID_H
#define CLI_ID_H

#include "cli/base/cli.h"

#include <stddef.h>

#define CLI_ID_MAX             64 // hex digits of the longest name, that of a version
#define CLI_ID_DESTRUCTIVE_MIN 4u // of an id's digits, to name by them what is taken away

// What may be named by its beginning, by where the gateway lists it.
enum cli_id_kind { CLI_ID_ROLLOUT, CLI_ID_DEVICE, CLI_ID_TOKEN, CLI_ID_KILL, CLI_ID_KIND_COUNT };

// Is this the beginning of an id, in lower-case hex?
bool cli_id_is_prefix(const char *text, enum cli_id_kind kind);
// The whole id that begins so; what is no beginning of one is left for the gateway to refuse.
// REFUSED: none begins so; USAGE: several do, which are named.
enum cli_exit cli_id_whole(const struct cli *cli, enum cli_id_kind kind, const char *text,
                           char out[CLI_ID_MAX + 1]);
// The ids that a command has for an argument or as --device become whole; they live as long as the
// process. USAGE also: fewer than CLI_ID_DESTRUCTIVE_MIN digits for a command that takes something
// away (kill, undo, abort, revoke, reset).
enum cli_exit cli_id_resolve(struct cli *cli, const struct cli_command *command);

#endif
