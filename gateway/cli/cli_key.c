// Command `walle key new`: a pair of Ed25519 keys, made and saved by gateway/signing. The table in
// cli_commands.c names it; one thread. No gateway is asked, and a file that is there already is not
// written over.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "signing/signing.h"

#include "base/os/output_file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static enum cli_exit save_pair(const struct signing_key *key, const char *path, const char *hex)
{
    char public_path[CLI_PATH_MAX];
    char line[2 * WIRE_PUBLIC_KEY_BYTES + 2];
    struct base_error error = {0};

    if (snprintf(public_path, sizeof(public_path), "%s.pub", path) >= CLI_PATH_MAX) {
        return cli_fail(CLI_EXIT_USAGE, "--out: path too long");
    }
    if (access(path, F_OK) != 0 && is_file(public_path)) {
        return cli_fail(CLI_EXIT_LOCAL, "%s exists already and is not replaced: name another file",
                        public_path);
    }
    int size = snprintf(line, sizeof(line), "%s\n", hex);
    if (signing_key_save(key, path, &error) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    if (base_output_write(public_path, line, (size_t)size, &error) != BASE_OK) {
        (void)unlink(path);
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    return CLI_EXIT_OK;
}

enum cli_exit cli_key_new(struct cli *cli)
{
    const char *path = cli->values[CLI_OPTION_OUT];
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
    char hex[2 * WIRE_PUBLIC_KEY_BYTES + 1] = "";
    struct signing_key *key = NULL;

    if (path == NULL || path[0] == '\0') {
        return cli_fail(CLI_EXIT_USAGE, "--out FILE is missing: where the private key goes");
    }
    if (signing_key_new(&key) != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "cannot draw a key");
    }
    signing_key_public(key, public_key);
    base_hex_encode(public_key, sizeof(public_key), hex);
    enum cli_exit code = save_pair(key, path, hex);
    signing_key_free(key);
    if (code == CLI_EXIT_OK && cli->json) {
        json_t *root = json_pack("{s:s, s:s}", "public_key", hex, "file", path);
        cli_json_print(root);
        json_decref(root);
    } else if (code == CLI_EXIT_OK) {
        printf("%s\n", hex);
    }
    return code;
}
