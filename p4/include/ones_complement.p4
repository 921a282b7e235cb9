// One's complement arithmetic (RFC 1071, RFC 1624) on 32-bit sums.

#ifndef GATEWAY_ONES_COMPLEMENT_P4
#define GATEWAY_ONES_COMPLEMENT_P4

// Carries of a one's complement sum of up to 2^16 words.
#define FOLD(sum) \
    sum = (sum & 0xFFFF) + (sum >> 16); \
    sum = (sum & 0xFFFF) + (sum >> 16)

// Words of one's complement arithmetic, wide enough to add up.
#define HIGH(addr) ((bit<32>) addr[31:16])
#define LOW(addr) ((bit<32>) addr[15:0])
#define WITHOUT_HIGH(addr) ((bit<32>) (~addr[31:16]))
#define WITHOUT_LOW(addr) ((bit<32>) (~addr[15:0]))
#define WITHOUT(word) ((bit<32>) (~word))

#endif
