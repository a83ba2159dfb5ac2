"""What runs inside the images: the Dockerfiles copy this folder to /opt/customops, and docker/locks to /opt/locks.

With ENGINE=host the same scripts run on the machine itself. A script reads its locks from ../locks in both places.
"""
