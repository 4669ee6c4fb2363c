// Blobs of a build on their way to the gateway. Called by cli_task.c for `task push`, with what the
// gateway says it lacks; one thread. Small exclusive files go together in packs of PUSH_PACK_BYTES,
// since a version for many subjects has many of them; everything else goes alone. A blob is named
// by its hash, so one that arrives twice is no harm.
#include "cli/task/push_blobs.h"

#include "cli/base/cli_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Is it for everybody: the manifest, or a file it lists?
static bool is_shared(const struct task_build *build, const struct wire_sha256 *digest)
{
    bool shared = wire_sha256_equal(digest, &build->manifest_digest);
    for (uint32_t i = 0; i < build->manifest.file_count && !shared; ++i) {
        shared = wire_sha256_equal(digest, &build->manifest.files[i].digest);
    }
    return shared;
}

static enum cli_exit put(const struct cli *cli, const char *path, const void *bytes, size_t size,
                         const char *what)
{
    struct cli_answer answer = {0};
    struct cli_call call = {.method = "PUT",
                            .path = path,
                            .content_type = "application/octet-stream",
                            .body = bytes,
                            .body_bytes = size};
    enum cli_exit code = cli_http_call(cli, &call, &answer);

    if (code == CLI_EXIT_OK && answer.status >= 400) {
        json_t *problem =
            json_loadb(answer.body_bytes > 0 ? answer.body : "", answer.body_bytes, 0, NULL);
        code = cli_fail(CLI_EXIT_REFUSED, "%s refused (%ld): %s", what, answer.status,
                        cli_json_text(problem, "detail", "no detail"));
        json_decref(problem);
    }
    cli_answer_done(&answer);
    return code;
}

// Exclusive blobs that go together.
struct pack {
    uint8_t *bytes; // PUSH_PACK_BYTES
    size_t size;
    uint32_t count;
};

static enum cli_exit pack_send(const struct cli *cli, struct pack *pack)
{
    enum cli_exit code = pack->count > 0 ? put(cli, "/api/v1/exclusive", pack->bytes, pack->size,
                                               "a pack of exclusive files")
                                         : CLI_EXIT_OK;
    pack->size = 0;
    pack->count = 0;
    return code;
}

static void pack_add(struct pack *pack, const uint8_t *bytes, size_t size)
{
    struct base_writer writer;

    base_writer_init(&writer, pack->bytes + pack->size, PUSH_PACK_BYTES - pack->size);
    base_writer_u32(&writer, (uint32_t)size);
    base_writer_bytes(&writer, bytes, size);
    pack->size += base_writer_size(&writer);
    pack->count++;
}

static enum cli_exit put_alone(const struct cli *cli, const char *door, const char *hex,
                               const uint8_t *bytes, size_t size)
{
    char path[CLI_PATH_MAX];
    char what[32];

    (void)snprintf(path, sizeof(path), "/api/v1/%s/%.64s", door, hex);
    (void)snprintf(what, sizeof(what), "blob %.12s…", hex);
    return put(cli, path, bytes, size, what);
}

static enum cli_exit put_blob(const struct cli *cli, const char *folder,
                              const struct task_build *build, struct pack *pack, const char *hex)
{
    struct wire_sha256 digest;
    uint8_t *bytes = NULL;
    size_t size = 0;
    struct base_error error = {0};
    enum cli_exit code = CLI_EXIT_OK;

    if (hex == NULL || wire_sha256_parse(base_str_of(hex), &digest) != BASE_OK) {
        return cli_fail(CLI_EXIT_REFUSED, "the gateway's list of missing blobs is garbled");
    }
    bool shared = is_shared(build, &digest);
    // Whatever lies under the name, only what the name says leaves this machine.
    enum base_status status = task_blob_read(folder, &digest, &bytes, &size, &error);
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s (the gateway asks for this blob)", error.text);
    }
    if (shared || size + sizeof(uint32_t) > PUSH_PACK_BYTES) {
        code = put_alone(cli, shared ? "blobs" : "exclusive", hex, bytes, size);
    } else {
        if (size + sizeof(uint32_t) > PUSH_PACK_BYTES - pack->size ||
            pack->count == PUSH_PACK_BLOBS) {
            code = pack_send(cli, pack);
        }
        pack_add(pack, bytes, size);
    }
    free(bytes);
    return code;
}

enum cli_exit push_blobs(const struct cli *cli, const char *folder, const struct task_build *build,
                         const json_t *answer, uint64_t *uploaded)
{
    const json_t *missing = json_object_get(answer, "missing");
    struct pack pack = {.bytes = malloc(PUSH_PACK_BYTES)};
    enum cli_exit code = CLI_EXIT_OK;
    size_t index;
    json_t *item;

    if (json_array_size(missing) == 0) {
        code = cli_fail(CLI_EXIT_REFUSED, "%s refused (409): %s", cli_http_gateway(cli),
                        cli_json_text(answer, "detail", "conflict"));
    } else if (pack.bytes == NULL) {
        code = cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    json_array_foreach(missing, index, item)
    {
        if (code == CLI_EXIT_OK) {
            code = put_blob(cli, folder, build, &pack, json_string_value(item));
            *uploaded += code == CLI_EXIT_OK ? 1 : 0;
        }
    }
    if (code == CLI_EXIT_OK) {
        code = pack_send(cli, &pack);
    }
    free(pack.bytes);
    return code;
}
