// Release signing: what `walle rollout start` signs is what a device verifies, and nothing else.
#include "test_kit.h"

#include "signing/signing.h"

#include <openssl/evp.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int failing_closes; // so many files say when they are closed that something was lost

// In front of the C library's: some file systems say so only then, none that a test has.
int fclose(FILE *file)
{
    int (*own)(FILE *) = NULL;
    *(void **)&own = dlsym(RTLD_NEXT, "fclose");
    int status = own(file);
    if (failing_closes > 0) {
        failing_closes--;
        errno = EDQUOT;
        status = EOF;
    }
    return status;
}

static struct wire_release sample(void)
{
    struct wire_release release = {.task_name = BASE_STR("shop/ipv"),
                                   .release_counter = 7,
                                   .manifest_bytes = 420,
                                   .rollout_id = 0x0123456789abcdefu,
                                   .salt = 0xfedcba9876543210u,
                                   .max_bucket = 100,
                                   .stage_kind = 2,
                                   .issued_s = 1700000000,
                                   .expires_s = 1800000000};
    memset(release.manifest.bytes, 0x5a, sizeof(release.manifest.bytes));
    return release;
}

// An independent check: parses the envelope and verifies with OpenSSL over bytes put together here.
static bool verifies(const uint8_t *bytes, size_t size,
                     const uint8_t public_key[WIRE_PUBLIC_KEY_BYTES])
{
    static const char domain[] = "walle-meta-v1"; // with its NUL
    struct wire_envelope envelope;
    uint8_t message[2048];
    size_t at = 0;

    if (wire_envelope_parse(bytes, size, &envelope) != BASE_OK || envelope.signature_count != 1) {
        return false;
    }
    memcpy(message, domain, sizeof(domain));
    at = sizeof(domain);
    message[at++] = envelope.type;
    memcpy(message + at, envelope.payload, envelope.payload_bytes);
    at += envelope.payload_bytes;
    EVP_PKEY *key =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, WIRE_PUBLIC_KEY_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_non_null(key);
    assert_non_null(context);
    assert_int_equal(EVP_DigestVerifyInit(context, NULL, NULL, NULL, key), 1);
    bool good = EVP_DigestVerify(context, envelope.signatures[0].bytes, WIRE_SIGNATURE_BYTES,
                                 message, at) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return good;
}

static void test_signed_statement_verifies(void **state)
{
    struct signing_key *key = NULL;
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_release release = sample();
    struct wire_release back;
    struct wire_envelope envelope;
    struct wire_sha256 key_id;

    (void)state;
    assert_int_equal(signing_key_new(&key), BASE_OK);
    signing_key_public(key, public_key);
    assert_int_equal(signing_release(key, &release, bytes, sizeof(bytes), &size), BASE_OK);
    assert_true(verifies(bytes, size, public_key));
    assert_int_equal(wire_envelope_parse(bytes, size, &envelope), BASE_OK);
    assert_int_equal(envelope.type, WIRE_ENVELOPE_TYPE_RELEASE);
    assert_int_equal(signing_sha256(public_key, sizeof(public_key), &key_id), BASE_OK);
    assert_memory_equal(envelope.signatures[0].key_id, key_id.bytes, WIRE_SHA256_BYTES);
    assert_int_equal(wire_release_parse(envelope.payload, envelope.payload_bytes, &back), BASE_OK);
    assert_true(base_str_equal(back.task_name, release.task_name));
    assert_true(back.release_counter == 7 && back.max_bucket == 100 && back.stage_kind == 2);
    assert_true(back.rollout_id == release.rollout_id && back.salt == release.salt);
    assert_true(back.manifest_bytes == 420 && back.expires_s == 1800000000);
    signing_key_free(key);
}

// No single bit of a statement can change without the signature, or the frame, noticing. (Bits of
// the key id name the key: the device would not find it.)
static void test_every_flipped_bit_is_refused(void **state)
{
    struct signing_key *key = NULL;
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_release release = sample();

    (void)state;
    assert_int_equal(signing_key_new(&key), BASE_OK);
    signing_key_public(key, public_key);
    assert_int_equal(signing_release(key, &release, bytes, sizeof(bytes), &size), BASE_OK);
    size_t key_id_at = size - WIRE_SIGNATURE_BYTES - WIRE_SHA256_BYTES;
    for (size_t i = 0; i < size * 8; ++i) {
        size_t byte = i / 8;
        if (byte >= key_id_at && byte < key_id_at + WIRE_SHA256_BYTES) {
            continue;
        }
        bytes[byte] ^= (uint8_t)(1u << (i % 8));
        if (verifies(bytes, size, public_key)) {
            fail_msg("bit %zu flipped, and the statement still verifies", i);
        }
        bytes[byte] ^= (uint8_t)(1u << (i % 8));
    }
    assert_true(verifies(bytes, size, public_key));
    signing_key_free(key);
}

static void test_another_key_does_not_verify(void **state)
{
    struct signing_key *key = NULL;
    struct signing_key *other = NULL;
    uint8_t public_key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_release release = sample();

    (void)state;
    assert_int_equal(signing_key_new(&key), BASE_OK);
    assert_int_equal(signing_key_new(&other), BASE_OK);
    signing_key_public(other, public_key);
    assert_int_equal(signing_release(key, &release, bytes, sizeof(bytes), &size), BASE_OK);
    assert_false(verifies(bytes, size, public_key));
    signing_key_free(key);
    signing_key_free(other);
}

static void test_bad_statements_are_not_signed(void **state)
{
    struct signing_key *key = NULL;
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    struct wire_release release = sample();

    (void)state;
    assert_int_equal(signing_key_new(&key), BASE_OK);
    release.max_bucket = 10001;
    assert_int_equal(signing_release(key, &release, bytes, sizeof(bytes), &size), BASE_ERR_INVALID);
    release = sample();
    release.task_name = BASE_STR("No Name");
    assert_int_equal(signing_release(key, &release, bytes, sizeof(bytes), &size), BASE_ERR_INVALID);
    release = sample();
    assert_int_equal(signing_release(key, &release, bytes, 40, &size), BASE_ERR_TOO_LARGE);
    signing_key_free(key);
}

static void test_key_file_round_trip(void **state)
{
    char folder[] = "/tmp/walle-signing-XXXXXX";
    char path[64];
    struct signing_key *key = NULL;
    struct signing_key *again = NULL;
    uint8_t a[WIRE_PUBLIC_KEY_BYTES];
    uint8_t b[WIRE_PUBLIC_KEY_BYTES];
    struct base_error error = {0};
    struct stat about;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/key", folder);
    assert_int_equal(signing_key_new(&key), BASE_OK);
    assert_int_equal(signing_key_save(key, path, &error), BASE_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    // Never replaced.
    assert_int_equal(signing_key_save(key, path, &error), BASE_ERR_EXISTS);
    assert_int_equal(signing_key_load(path, &again, &error), BASE_OK);
    signing_key_public(key, a);
    signing_key_public(again, b);
    assert_memory_equal(a, b, sizeof(a));
    signing_key_free(again);
    signing_key_free(key);

    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("not a key\n", file);
    fclose(file);
    assert_int_equal(signing_key_load(path, &again, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.text, path));
    unlink(path);
    assert_int_equal(signing_key_load(path, &again, &error), BASE_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, path));
    rmdir(folder);
}

// A key of which something was lost is none: it is told, and no file stays.
static void test_key_lost_when_closed(void **state)
{
    char folder[] = "/tmp/walle-key-XXXXXX";
    char path[64];
    struct signing_key *key = NULL;
    struct base_error error = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/key", folder);
    assert_int_equal(signing_key_new(&key), BASE_OK);
    failing_closes = 1;
    assert_int_equal(signing_key_save(key, path, &error), BASE_ERR_FULL);
    assert_int_equal(failing_closes, 0);
    assert_non_null(strstr(error.text, "cannot write the key: Disk quota exceeded"));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(signing_key_save(key, path, &error), BASE_OK);
    signing_key_free(key);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signed_statement_verifies),
        cmocka_unit_test(test_every_flipped_bit_is_refused),
        cmocka_unit_test(test_another_key_does_not_verify),
        cmocka_unit_test(test_bad_statements_are_not_signed),
        cmocka_unit_test(test_key_file_round_trip),
        cmocka_unit_test(test_key_lost_when_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
