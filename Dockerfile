# Each command as a static binary in an image of its own, without a shell, as a user without rights. One target a command:
#   docker build --target persister -t spool-persister .
# The last target is the tool itself:
#   docker build -t spool . && docker run --rm spool version
# What it says comes from --build-arg VERSION=v1.2.0 --build-arg COMMIT=$(git rev-parse HEAD); the repository is not in the build.
# A second build compiles what changed: Go's caches are kept beside the images. That needs BuildKit, which Docker Engine 23 and later has.

FROM golang:1.26.8 AS build
ENV GOMODCACHE=/cache/modules GOCACHE=/cache/build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache go mod download
COPY . .
ARG VERSION COMMIT
RUN --mount=type=cache,target=/cache \
    CGO_ENABLED=0 go build -buildvcs=false -trimpath \
    -ldflags="-s -w -X spool/internal/service.version=$VERSION -X spool/internal/service.commit=$COMMIT" -o /out/bin/ ./cmd/ingest ./cmd/persister ./cmd/gc ./cmd/spool \
    && mkdir -p /out/data /out/tmp

# What every command has: the authorities that it trusts, a place for temporary files, and a program that asks over HTTP, for health checks.
FROM scratch AS base
ARG VERSION COMMIT
LABEL org.opencontainers.image.title=spool org.opencontainers.image.version=$VERSION org.opencontainers.image.revision=$COMMIT
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=busybox:1.37.0-uclibc /bin/wget /bin/wget
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532

FROM base AS persister
COPY --from=build /out/bin/persister /bin/persister
ENTRYPOINT ["/bin/persister"]

FROM base AS gc
COPY --from=build /out/bin/gc /bin/gc
ENTRYPOINT ["/bin/gc"]

FROM base AS ingest
COPY --from=build /out/bin/ingest /bin/ingest
EXPOSE 7717
ENTRYPOINT ["/bin/ingest"]

# What "spool up" and "spool bench" store goes to /data and /tmp.
FROM base AS spool
COPY --from=build /out/bin/spool /bin/spool
COPY --from=build --chown=65532:65532 /out/data /data
ENV XDG_DATA_HOME=/data
VOLUME /data
ENTRYPOINT ["/bin/spool"]
