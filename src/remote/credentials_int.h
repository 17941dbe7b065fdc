/* credentials_int.h - between credentials.c and credentials_web.c, which asks services. */
#ifndef REMOTE_CREDENTIALS_INT_H
#define REMOTE_CREDENTIALS_INT_H
#include "remote/credentials.h"
#include <pthread.h>

struct held {
    struct credentials c;
    i64                expires_s; /* 0: never */
};

struct credential_chain {
    struct os                 *os;
    struct web                *web;
    struct credential_settings settings;
    pthread_mutex_t            lock;
    i64                        source; /* the one that gave them; -1: not asked yet */
    bool                       stale;  /* the store refused them */
    struct arena memory[2];            /* the held ones lie in one, the next come into the other */
    struct held  held;
};

/* Sources: NO when not configured on this machine. What they give lies in perm. */
enum status source_web_identity(struct credential_chain *c, struct arena *perm, struct held *out,
                                struct err *err);
enum status source_container(struct credential_chain *c, struct arena *perm, struct held *out,
                             struct err *err);
enum status source_instance(struct credential_chain *c, struct arena *perm, struct held *out,
                            struct err *err);
enum status source_google(struct credential_chain *c, struct arena *perm, struct held *out,
                          struct err *err);

/* {"AccessKeyId": …, "SecretAccessKey": …, "Token" or "SessionToken": …, "Expiration": …} */
enum status held_of_json(struct str text, const char *who, struct arena *perm, struct held *out,
                         struct err *err);

struct role {
    struct str arn, token_file, session; /* session may be empty */
};
enum status role_by_web_identity(struct credential_chain *c, const struct role *r,
                                 struct arena *perm, struct held *out, struct err *err);

#endif
