// Makes the development certificate when there is none, and anew before it runs out. Called by
// tls_context.c on the main thread, at start and when it is due. It replaces only what bears its
// own name, so a certificate that somebody put in its place stays. It is for a server and no
// authority: who trusts it trusts nothing its key could sign.
#include "http/secret/dev_certificate.h"

#include "base/os/regular_file.h"
#include "http/secret/secret_file.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

#define COMMON_NAME      "walle-gateway development"
#define DAY_S            (24L * 3600)
#define VALID_SECONDS    (GW_DEV_CERTIFICATE_DAYS * DAY_S)
#define BACKDATE_SECONDS (-DAY_S) // for clients whose clock is a little behind

static bool add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static bool set_serial(X509 *certificate)
{
    uint64_t serial;
    if (RAND_bytes((unsigned char *)&serial, sizeof(serial)) != 1) {
        return false;
    }
    serial = serial >> 1 | UINT64_C(1) << 62; // eight bytes, whatever was drawn
    return ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1;
}

static bool fill(X509 *certificate, EVP_PKEY *key)
{
    const EVP_MD *digest = EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
    X509_NAME *name = X509_get_subject_name(certificate);
    bool ok = X509_set_version(certificate, 2) == 1 && set_serial(certificate) &&
              X509_gmtime_adj(X509_getm_notBefore(certificate), BACKDATE_SECONDS) != NULL &&
              X509_gmtime_adj(X509_getm_notAfter(certificate), VALID_SECONDS) != NULL &&
              X509_set_pubkey(certificate, key) == 1 &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                         (const unsigned char *)COMMON_NAME, -1, -1, 0) == 1 &&
              X509_set_issuer_name(certificate, name) == 1;
    return ok && add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth") &&
           add_extension(certificate, NID_subject_alt_name,
                         "DNS:localhost,IP:127.0.0.1,IP:0:0:0:0:0:0:0:1") &&
           add_extension(certificate, NID_subject_key_identifier, "hash") &&
           X509_sign(certificate, key, digest) > 0;
}

bool gw_dev_certificate_due(const char *certificate_path, uint64_t now_s)
{
    enum base_status look = base_regular_holds(certificate_path, BASE_PEM_BYTES_MAX, NULL);
    if (look == BASE_ERR_INVALID || look == BASE_ERR_TOO_LARGE) {
        return false; // reading it might never end
    }
    BIO *file = BIO_new_file(certificate_path, "r");
    if (file == NULL) {
        ERR_clear_error();
        return access(certificate_path, F_OK) != 0;
    }
    X509 *certificate = PEM_read_bio_X509(file, NULL, NULL, NULL);
    BIO_free(file);
    if (certificate == NULL) {
        ERR_clear_error();
        return false;
    }
    time_t renew_s = (time_t)now_s + (time_t)(GW_DEV_CERTIFICATE_RENEW_DAYS * DAY_S);
    // Only its own: a certificate somebody put there has another name.
    char name[64] = "";
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                                    sizeof(name));
    bool due = strcmp(name, COMMON_NAME) == 0 &&
               (X509_cmp_time(X509_get0_notAfter(certificate), &renew_s) < 0 ||
                X509_check_ca(certificate) != 0);
    X509_free(certificate);
    return due;
}

// What was written to a memory BIO goes to a file.
static enum base_status save(BIO *bio, const char *path, struct base_error *error)
{
    char *text = NULL;
    long size = BIO_get_mem_data(bio, &text);
    return gw_secret_file_write(path, text, (size_t)size, error);
}

// Takes the key; NULL: there was no memory for it.
static enum base_status make_pair(EVP_PKEY *key, const char *certificate_path, const char *key_path,
                                  struct base_error *error)
{
    X509 *certificate = X509_new();
    BIO *key_text = BIO_new(BIO_s_mem());
    BIO *certificate_text = BIO_new(BIO_s_mem());
    enum base_status status;
    bool made = key != NULL && certificate != NULL && key_text != NULL &&
                certificate_text != NULL && fill(certificate, key) &&
                PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL) == 1 &&
                PEM_write_bio_X509(certificate_text, certificate) == 1;
    if (!made) {
        status = base_error_set(error, BASE_ERR_NOMEM, "%s: cannot make a certificate",
                                certificate_path);
    } else {
        status = save(key_text, key_path, error);
        if (status == BASE_OK) {
            status = save(certificate_text, certificate_path, error);
        }
    }
    BIO_free(certificate_text);
    BIO_free(key_text);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return status;
}

enum base_status gw_dev_certificate_make(const char *certificate_path, const char *key_path,
                                         struct base_error *error)
{
    return make_pair(EVP_EC_gen("P-256"), certificate_path, key_path, error);
}

enum base_status gw_dev_certificate_steady(const char *certificate_path, const char *key_path,
                                           struct base_error *error)
{
    return make_pair(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), certificate_path, key_path, error);
}
