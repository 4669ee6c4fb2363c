// Reads the root of --root, or a key of --trust, and holds the root against the one in
// DIR/root.born. Called by device_agent.c on its main thread: agent_root_read while arguments are
// parsed, agent_root_keep before the runtime starts. What a changed root means is judged here, as
// the core knows but one root: another root of the same version stops the agent, one of another
// version is taken and said in the log. The file is "VERSION SHA256 CHECK", so that damage is told
// from another root.
#include "agent_root.h"

#include "base/hash.h"
#include "base/os/output_file.h"
#include "base/os/regular_file.h"
#include "base/str.h"
#include "device/port.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME         "root.born"
#define DIR_MODE     0700
#define TEXT_MAX     (48u + WIRE_SHA256_HEX) // a version, a hash, a check of them
#define KEY_TEXT_MAX 256
#define SHORT_HEX    16 // characters of a hash that are shown

enum base_status agent_root_read(const char *path, uint8_t out[WIRE_META_BYTES_MAX],
                                 size_t *out_size, struct base_error *error)
{
    struct wire_envelope envelope;
    FILE *file = NULL;
    BASE_TRY(base_regular_stream(path, &file, error));
    size_t size = fread(out, 1, WIRE_META_BYTES_MAX, file);
    (void)fclose(file);
    if (wire_envelope_parse(out, size, &envelope) != BASE_OK ||
        envelope.type != WIRE_ENVELOPE_TYPE_ROOT) {
        return base_error_set(error, BASE_ERR_INVALID, "%.200s does not hold a root", path);
    }
    *out_size = size;
    return BASE_OK;
}

struct born {
    uint64_t version;
    char hex[WIRE_SHA256_HEX + 1];
};

// False: these bytes are no root.
static bool describe(const uint8_t *bytes, size_t size, struct born *out)
{
    const struct dev_crypto_port *crypto = dev_crypto_openssl();
    struct wire_envelope envelope;
    struct wire_root root;
    struct wire_sha256 digest;
    struct dev_hash_state state;
    if (wire_envelope_parse(bytes, size, &envelope) != BASE_OK ||
        wire_root_parse(envelope.payload, envelope.payload_bytes, &root) != BASE_OK) {
        return false;
    }
    crypto->hash_begin(crypto->ctx, &state, NULL);
    crypto->hash_update(crypto->ctx, &state, bytes, size);
    crypto->hash_end(crypto->ctx, &state, &digest);
    out->version = root.version;
    wire_sha256_hex(&digest, out->hex);
    out->hex[WIRE_SHA256_HEX] = '\0';
    return true;
}

// "VERSION SHA256 CHECK" and the end of the line; CHECK tells damage from another root.
static size_t text_of(const struct born *born, char out[TEXT_MAX])
{
    int size = snprintf(out, TEXT_MAX, "%llu %s", (unsigned long long)born->version, born->hex);
    uint64_t check = base_hash64(out, (size_t)size);
    return (size_t)(size + snprintf(out + size, TEXT_MAX - (size_t)size, " %016llx\n",
                                    (unsigned long long)check));
}

// What the folder remembers. False: nothing yet, or nothing that makes sense.
static enum base_status recall(const char *path, struct born *out, bool *out_known,
                               struct base_error *error)
{
    char text[TEXT_MAX];
    char again[TEXT_MAX];
    int fd = -1;
    *out_known = false;
    enum base_status status = base_regular_open(path, O_RDONLY | O_NOFOLLOW, &fd, error);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
    }
    ssize_t size = read(fd, text, sizeof(text));
    (void)close(fd);
    const char *blank = size > 0 ? memchr(text, ' ', (size_t)size) : NULL;
    if (blank == NULL || text + size - blank - 1 < WIRE_SHA256_HEX) {
        return BASE_OK;
    }
    const struct base_str number = {text, (size_t)(blank - text)};
    memcpy(out->hex, blank + 1, WIRE_SHA256_HEX);
    out->hex[WIRE_SHA256_HEX] = '\0';
    *out_known = base_str_u64(number, &out->version) == BASE_OK &&
                 text_of(out, again) == (size_t)size && memcmp(again, text, (size_t)size) == 0;
    return BASE_OK;
}

static enum base_status keep(const char *dir, const struct dev_config *config,
                             const struct base_log *log, struct base_error *error)
{
    char path[PATH_MAX];
    char text[TEXT_MAX];
    struct born now;
    struct born before;
    bool known = false;
    int length = snprintf(path, sizeof(path), "%s/" NAME, dir);
    if (length < 0 || (size_t)length >= sizeof(path) ||
        !describe(config->root, config->root_bytes, &now)) {
        return base_error_set(error, BASE_ERR_INVALID, "--root: no root, or --dir is too long");
    }
    BASE_TRY(recall(path, &before, &known, error));
    bool changed = known && strcmp(before.hex, now.hex) != 0;
    if (changed && before.version == now.version) {
        return base_error_set(error, BASE_ERR_CONFLICT,
                              "--root is another root %llu (%.16s) than the one this device was "
                              "born with (%.16s): of another gateway? It takes that one, or a "
                              "--dir of its own",
                              (unsigned long long)now.version, now.hex, before.hex);
    }
    if (changed) {
        base_log_warn(log, "device", "the root of --root changed: %llu (%.*s), and was %llu (%.*s)",
                      (unsigned long long)now.version, SHORT_HEX, now.hex,
                      (unsigned long long)before.version, SHORT_HEX, before.hex);
    } else if (!known) { // once, and not at every start
        base_log_info(log, "device", "born with root %llu (%.*s)", (unsigned long long)now.version,
                      SHORT_HEX, now.hex);
    }
    if (mkdir(dir, DIR_MODE) != 0 && errno != EEXIST) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", dir, strerror(errno));
    }
    return known && !changed ? BASE_OK : base_output_write(path, text, text_of(&now, text), error);
}

bool agent_root_keep(const struct posix_options *options, const struct base_log *log)
{
    struct base_error error = {0};
    if (options->config.root == NULL ||
        keep(options->dir, &options->config, log, &error) == BASE_OK) {
        return true;
    }
    base_log_error(log, "device", "%s", error.text);
    return false;
}

// ---- --trust

static bool key_of_text(struct base_str text, uint8_t key[WIRE_PUBLIC_KEY_BYTES])
{
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == ' ')) {
        text.size--;
    }
    return base_hex_decode(text, key, WIRE_PUBLIC_KEY_BYTES) == BASE_OK;
}

enum base_status agent_key_read(const char *text, uint8_t out[WIRE_PUBLIC_KEY_BYTES],
                                struct base_error *error)
{
    struct base_error why = {0};
    char content[KEY_TEXT_MAX];
    FILE *file = NULL;
    if (key_of_text(base_str_of(text), out)) {
        return BASE_OK;
    }
    if (base_regular_stream(text, &file, &why) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "'%.100s' is neither 64 hex digits nor a readable file: %s", text,
                              why.text);
    }
    size_t size = fread(content, 1, sizeof(content), file);
    (void)fclose(file);
    return key_of_text((struct base_str){content, size}, out)
               ? BASE_OK
               : base_error_set(error, BASE_ERR_INVALID,
                                "%.200s does not hold a public key of 64 hex digits", text);
}
