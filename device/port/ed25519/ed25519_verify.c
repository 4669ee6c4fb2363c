// Ed25519 verification on OpenSSL. Called by the device's port of cryptography
// (port/crypto/crypto_openssl.c) and by the verifier of gateway/signing; any thread, nothing is
// kept between calls.
#include "ed25519/ed25519_verify.h"

#include <openssl/evp.h>

enum base_status ed25519_verify(const uint8_t key[WIRE_PUBLIC_KEY_BYTES], const uint8_t *message,
                                size_t size, const uint8_t signature[WIRE_SIGNATURE_BYTES])
{
    EVP_PKEY *public =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, WIRE_PUBLIC_KEY_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = public != NULL && context != NULL &&
                EVP_DigestVerifyInit(context, NULL, NULL, NULL, public) == 1 &&
                EVP_DigestVerify(context, signature, WIRE_SIGNATURE_BYTES, message, size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(public);
    return good ? BASE_OK : BASE_ERR_SIGNATURE;
}
