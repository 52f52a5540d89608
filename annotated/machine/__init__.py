"""Devices, several processes, and faster forms of the model."""
