# docker build -t candor . && docker run -p 127.0.0.1:8000:8000 -v candor:/data -e BASE_URL=http://127.0.0.1:8000 candor
# Everything that lasts is in the volume /data; docs/operate.md tells how to back it up and what to set behind a proxy.
FROM python:3.11-slim AS build
WORKDIR /app
COPY requirements.txt ./
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY . .
# Editable: it says where the program is, and copies nothing of it.
RUN /venv/bin/pip install --no-cache-dir --editable '.[postgres,redis]'

FROM python:3.11-slim
RUN groupadd --system --gid 10001 candor \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin candor \
    && install -d -o candor -g candor -m 0700 /data
COPY --from=build /venv /venv
WORKDIR /app
COPY . .
RUN /venv/bin/python -m compileall -q .
# One heap for all threads saves a tenth of the memory.
ENV MALLOC_ARENA_MAX=1 PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOST=0.0.0.0 PORT=8000 DATA_DIR=/data
# By number: Kubernetes' runAsNonRoot cannot look a name up.
USER 10001:10001
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
# It asks by the name that BASE_URL gives, which is served whatever ALLOWED_HOSTS says.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "import os, urllib.parse as p, urllib.request as u; host = p.urlsplit(os.environ.get('BASE_URL', '')).netloc or '127.0.0.1'; u.urlopen(u.Request(f'http://127.0.0.1:{os.environ[\"PORT\"]}/api/health', headers={'Host': host}), timeout=4)"]
CMD ["python", "app.py", "run"]
