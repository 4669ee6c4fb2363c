// What the gateway's root says of a rollout that is about to be made. One thread; see
// served_root.h. cli_release.c checks statements and counter, rollout_evidence.c fetches the root
// for the simulator. The check is that of the gateway (device/wire), so an answer here is the one
// that would come later.
#include "cli/rollout/served_root.h"

#include "cli/base/cli_http.h"
#include "cli/base/cli_json.h"
#include "signing/signing.h"

#include "wire/trust/meta.h"
#include "wire/trust/release_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// UNREACHABLE where there is no answer; *out NULL: it is no good one, and nothing is said of that.
static enum cli_exit ask(const struct cli *cli, const struct cli_call *call, json_t **out)
{
    struct cli_answer answer = {0};
    enum cli_exit code = cli_http_call(cli, call, &answer);

    *out = code == CLI_EXIT_OK && answer.status == 200
               ? json_loadb(answer.body, answer.body_bytes, 0, NULL)
               : NULL;
    cli_answer_done(&answer);
    return code;
}

json_t *served_ask(const struct cli *cli, const char *method, const char *path, const json_t *body)
{
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    struct cli_call call = {.method = method,
                            .path = path,
                            .content_type = text != NULL ? "application/json" : NULL,
                            .body = text,
                            .body_bytes = text != NULL ? strlen(text) : 0};
    json_t *out = NULL;

    (void)ask(cli, &call, &out);
    free(text);
    return out;
}

enum cli_exit served_root_fetch(const struct cli *cli, uint8_t **out_bytes, size_t *out_size)
{
    char path[64];
    struct cli_answer answer = {0};
    struct cli_call call = {.method = "GET", .path = "/api/v1/trust"};
    json_t *trust = NULL;
    enum cli_exit code = ask(cli, &call, &trust);
    uint64_t version = cli_json_u64(trust, "root_version");

    json_decref(trust);
    *out_bytes = NULL;
    *out_size = 0;
    if (version == 0) {
        return code;
    }
    (void)snprintf(path, sizeof(path), "/v1/meta/root/%llu", (unsigned long long)version);
    call.path = path;
    code = cli_http_call(cli, &call, &answer);
    if (code == CLI_EXIT_OK && answer.status != 200) {
        code = cli_fail(CLI_EXIT_REFUSED, "root %llu: the gateway answered %ld",
                        (unsigned long long)version, answer.status);
    }
    if (code != CLI_EXIT_OK) {
        cli_answer_done(&answer);
        return code;
    }
    *out_bytes = (uint8_t *)answer.body; // the caller's from now on
    *out_size = answer.body_bytes;
    return CLI_EXIT_OK;
}

void served_root_warning(const struct cli *cli)
{
    json_t *trust = served_ask(cli, "GET", "/api/v1/trust", NULL);

    if (trust != NULL && cli_json_u64(trust, "root_version") == 0) {
        fprintf(stderr,
                "walle: warning: %s serves no root: whether devices take what these keys sign is "
                "not checked\n"
                "  walle root init --out root.1 --key ROOT.key --release RELEASE.key.pub makes the "
                "one that devices are born with (--root), walle root push root.1 serves it; with "
                "--trust none is needed\n",
                cli_http_gateway(cli));
    }
    json_decref(trust);
}

static enum base_status check_stage(const struct wire_root *root, const json_t *stage,
                                    struct base_error *error)
{
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    char what[64];
    size_t size = 0;
    struct wire_verifier verifier = signing_verifier();
    const char *text = cli_json_text(stage, "statement", NULL);

    if (text == NULL) {
        return BASE_OK;
    }
    (void)snprintf(what, sizeof(what), "stage %.40s", cli_json_text(stage, "name", "?"));
    if (base_b64_decode(base_str_of(text), bytes, sizeof(bytes), &size) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: statement: not base64url", what);
    }
    return wire_release_check(root, (struct base_span){bytes, size}, &verifier, what, error);
}

static enum cli_exit check_statements(const uint8_t *bytes, size_t size, const json_t *rollout)
{
    struct wire_verifier verifier = signing_verifier();
    struct base_error error = {0};
    struct wire_root root;
    size_t index;
    json_t *stage;

    enum base_status status = wire_root_open(bytes, size, &verifier, &root);
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_REFUSED, "the gateway's root: %s", base_status_text(status));
    }
    json_array_foreach(json_object_get(rollout, "stages"), index, stage)
    {
        if (check_stage(&root, stage, &error) != BASE_OK) {
            return cli_fail(CLI_EXIT_REFUSED, "%s", error.text);
        }
    }
    return CLI_EXIT_OK;
}

enum cli_exit served_counter_check(const struct cli *cli, const json_t *rollout)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";

    const char *id = cli_json_text(rollout, "id", "");
    json_t *made = NULL;

    if (id[0] != '\0' && strspn(id, "0123456789abcdef") == strlen(id)) {
        char own_path[CLI_PATH_MAX];
        (void)snprintf(own_path, sizeof(own_path), "/api/v1/rollouts/%.16s", id);
        made = served_ask(cli, "GET", own_path, NULL);
    }
    if (made != NULL) {
        enum cli_exit code =
            cli_fail(CLI_EXIT_REFUSED, "the draft was submitted already: rollout %s is %s", id,
                     cli_json_text(made, "state", "?"));
        json_decref(made);
        return code;
    }
    if (!cli_path_add(path, sizeof(path), cli_json_text(rollout, "task", "?"))) {
        return CLI_EXIT_OK; // the gateway says it
    }
    json_t *task = served_ask(cli, "GET", path, NULL);
    uint64_t highest = cli_json_u64(task, "release_counter");
    uint64_t own = cli_json_u64(rollout, "release_counter");
    bool outdated = task != NULL && own <= highest;
    json_decref(task);
    return outdated ? cli_fail(CLI_EXIT_REFUSED,
                               "release_counter %llu is not above the task's %llu: another rollout "
                               "came in between, draw it up anew",
                               (unsigned long long)own, (unsigned long long)highest)
                    : CLI_EXIT_OK;
}

enum cli_exit served_root_check(const struct cli *cli, const json_t *rollout)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    enum cli_exit code = served_root_fetch(cli, &bytes, &size);

    if (code == CLI_EXIT_OK && size > 0) {
        code = check_statements(bytes, size, rollout);
    }
    free(bytes);
    return code;
}
