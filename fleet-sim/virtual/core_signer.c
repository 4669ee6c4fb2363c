// What the gateway's core signs with in a run in virtual time: the keys that the gateway itself
// drew, so that devices born with its root believe what it says. core_gateway.c opens them where
// they lie: no copy of a key is made outside this process. Every signature is real.
#include "virtual/core_signer.h"

#include "base/os/errno_status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[GW_ONLINE_COUNT] = {
    [GW_ONLINE_TIMESTAMP] = "timestamp",
    [GW_ONLINE_SNAPSHOT] = "snapshot",
    [GW_ONLINE_DIRECTOR] = "director",
};

static enum base_status sign(void *ctx, enum gw_online_role role, const uint8_t *message,
                             size_t size, uint8_t out[WIRE_SIGNATURE_BYTES])
{
    const struct sim_core_signer *signer = ctx;
    enum base_status status = signing_key_sign(signer->keys[role], message, size, out);
    if (status == BASE_OK && signer->verify != NULL) {
        const struct sim_verify_question question =
            sim_verify_question(signer->port.keys[role], message, size, out);
        sim_shared_verify_note(signer->verify, &question);
    }
    return status;
}

static enum base_status key_open(const char *dir, enum gw_online_role role,
                                 struct sim_core_signer *out, struct base_error *error)
{
    char path[PATH_MAX];
    uint8_t seed[SIGNING_SEED_BYTES];
    (void)snprintf(path, sizeof(path), "%.4000s/keys/%s.key", dir, names[role]);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t size = fd >= 0 ? read(fd, seed, sizeof(seed)) : -1;
    enum base_status status = size < 0 ? base_status_of_errno(errno) : BASE_OK;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status == BASE_OK) {
        status =
            size == sizeof(seed) ? signing_key_of_seed(seed, &out->keys[role]) : BASE_ERR_INVALID;
    }
    explicit_bzero(seed, sizeof(seed));
    if (status != BASE_OK) {
        return base_error_set(error, status, "keys/%s.key: %s", names[role],
                              base_status_text(status));
    }
    signing_key_public(out->keys[role], out->port.keys[role]);
    return BASE_OK;
}

enum base_status sim_core_signer_open(const char *dir, struct sim_core_signer *out,
                                      struct base_error *error)
{
    *out = (struct sim_core_signer){.port = {.ctx = out, .sign = sign, .verify = signing_verify}};
    for (int role = 0; role < GW_ONLINE_COUNT; role++) {
        enum base_status status = key_open(dir, (enum gw_online_role)role, out, error);
        if (status != BASE_OK) {
            sim_core_signer_close(out);
            return status;
        }
    }
    return BASE_OK;
}

void sim_core_signer_close(struct sim_core_signer *signer)
{
    for (int role = 0; role < GW_ONLINE_COUNT; role++) {
        signing_key_free(signer->keys[role]);
        signer->keys[role] = NULL;
    }
}
