// The root that the gateway serves, and what it says of a rollout before anything is made. The
// gateway checks the same when it makes the rollout; here the answer comes before a simulation or a
// question costs anybody time.
#ifndef SERVED_ROOT_H
#define SERVED_ROOT_H

#include "cli/base/cli.h"

#include <jansson.h>
#include <stddef.h>

// What the gateway answers to a request with 200, as JSON; NULL when it does not, whatever the
// reason (said on standard error only when no gateway is reached). `body` may be NULL.
json_t *served_ask(const struct cli *cli, const char *method, const char *path, const json_t *body);
// Bytes of the newest root, to free(); *out_size 0: it serves none, or does not tell this operator.
enum cli_exit served_root_fetch(const struct cli *cli, uint8_t **out_bytes, size_t *out_size);
// Would devices take the statements of this rollout (a body of POST rollouts)? OK also when the
// gateway does not tell. REFUSED: said with stage, key and role.
enum cli_exit served_root_check(const struct cli *cli, const json_t *rollout);
// Says, as a warning, that the gateway serves none, and which commands change that: then nobody
// checks, before devices do, that they take what was signed.
void served_root_warning(const struct cli *cli);
// Is the rollout's counter above its task's? A draft may have lain about. As above.
enum cli_exit served_counter_check(const struct cli *cli, const json_t *rollout);

#endif
