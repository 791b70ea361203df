# One image for every service: `serve frontdoor`, `serve mutator` or `serve validator` is what it is run with.
# The base needs Python >= 3.11 with venv, and nothing else. The classic builder and BuildKit both build this.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /source
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/pratique
COPY scripts/requirements/ scripts/requirements/
RUN /build/bin/python -m pip install --no-cache-dir --quiet --require-hashes -r scripts/requirements/build.txt \
 && /build/bin/python -m pip --python /opt/pratique/bin/python \
    install --no-cache-dir --quiet --require-hashes -r scripts/requirements/run.txt
COPY . .
RUN /build/bin/python scripts/generate_protos.py \
 && /build/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /build/bin/python -m pip --python /opt/pratique/bin/python install --quiet --no-deps --no-index /wheels/*.whl

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Pratique" \
      org.opencontainers.image.description="Kubernetes admission control as gRPC microservices" \
      org.opencontainers.image.licenses="Apache-2.0"
# the interpreter's own library, too, starts from bytecode, which some bases lack
RUN python3 -m compileall -q -x '/(test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|pydoc_data)/' \
      "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/pratique /opt/pratique
COPY LICENSE NOTICE /opt/pratique/
# nothing is written at run time, so that the root file system can be read-only
ENV PATH=/opt/pratique/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# a number, so that an orchestrator can see that it is not root; it needs no entry in /etc/passwd
USER 65532:65532
ENTRYPOINT ["pratique"]
CMD ["--help"]
